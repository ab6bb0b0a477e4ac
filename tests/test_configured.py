"""``[tool.xbackend]`` in pyproject.toml: defaults of every option; the command line wins."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from store_helpers import results
from test_exit_codes import Here

from xbackend import cli
from xbackend.cli import COMMANDS, DONE, WRONG, application, configured, main
from xbackend.measure import session
from xbackend.report.said import circumstances
from xbackend.report.said.cluster import build
from xbackend.results.clustered import Jobs
from xbackend.results.schema import Results, SessionSettings, read

pytestmark = pytest.mark.tier("standard")

DOCUMENT = (Path(__file__).parent.parent / "docs" / "options.md").read_text()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(tmp_path, monkeypatch)


def written(here: Here, text: str) -> None:
    (here.folder / "pyproject.toml").write_text(text)


def asked(here: Here, *words: str) -> dict[str, Any]:
    """The arguments of a command line by name, those of measuring among them."""
    app = application()
    rest, app.config = configured.applied(words, [*COMMANDS], cli._options_of)
    _, bound, _ = app.parse_args(rest, exit_on_error=False, print_error=False)
    given = dict(bound.arguments)
    return {**given, **vars(given.pop("measuring", object))} if "measuring" in given else given


def test_the_document_is_what_is_read(here: Here) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    written(here, text)
    given = asked(here, "compare")
    assert given["backends"] == ["pytensor", "jax"] and given["quick"] and given["cores_per_device"] == 1
    assert given["settings"] == [("n", [10]), ("size", [256, 512])] and [*given["environments"]] == ["pytensor==2.38.3"]
    assert configured.taken["--set"] == "n=10 size=256,512"
    assert asked(here, "runs") == {"store": Path("measured/runs")}  # which has no --backends


def test_the_command_line_wins(here: Here) -> None:
    written(here, '[tool.xbackend]\nbackends = "jax"\n[tool.xbackend.compare]\nquick = true\nbackends = "numpy,jax"\n')
    assert asked(here, "compare")["backends"] == ["numpy", "jax"]  # of the command, before that of all
    assert asked(here, "compare", "--backends", "pytensor")["backends"] == ["pytensor"]
    assert "--backends" not in configured.taken
    thorough = asked(here, "compare", "--thorough")
    assert thorough["thorough"] and not thorough["quick"]
    assert "quick" not in asked(here, "compare", "--no-quick") or not asked(here, "compare", "--no-quick")["quick"]
    assert configured.taken == {"--backends": "numpy,jax"}


def test_the_nearest_file_with_the_table_counts(here: Here) -> None:
    written(here, "[tool.xbackend.draw]\nseed = 3\n")
    (inner := here.folder / "a" / "b").mkdir(parents=True)
    (here.folder / "a" / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    here.patch.chdir(inner)
    assert asked(here, "draw", "matpow")["seed"] == 3
    (here.folder / "a" / "pyproject.toml").write_text("[tool.xbackend]\n")
    assert "seed" not in asked(here, "draw", "matpow")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.xbackend.draw]\nzzz = 1", r"\[tool.xbackend.draw\] in \S+: there is no option zzz; there is "),
        ("[tool.xbackend.draw]\nsede = 1", "there is no option sede; did you mean 'seed'"),
        ("[tool.xbackend]\nbackend_s = 'jax'", "there is no option backend_s; did you mean 'backends'"),
        ("[tool.xbackend]\ndraw = 3", "there is no option draw"),
        ("[tool]\nxbackend = 3", "is a table of options, not 3"),
        ("[tool.xbackend.draw]\nseed = 'x'", r"pyproject.toml: --seed: 'x' is not a whole number from 0"),
        ("[tool.xbackend.draw]\nseed = true", "seed = True: write seed = what follows --seed N, a text or a number"),
        ("[tool.xbackend.draw]\nseed = [1, 2]", "'1,2' is not a whole number"),
        ("[tool.xbackend.draw]\nseed = {a = 1}", "write seed = what follows --seed N"),
        ("[tool.xbackend.draw]\njson = 'yes'", "json = 'yes': write json = true or json = false"),
        ("[tool.xbackend.draw]\nform = 'png'", "png.*form"),
        ("[tool.xbackend.draw", "pyproject.toml cannot be read: "),
        ("[tool.xbackend.draw]\nrewrites = 'none'", r"pyproject.toml sets --rewrites none\n.*give --from, too"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(here: Here, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    written(here, text)
    assert main(["draw", "mine.py:twice"]) == WRONG
    printed = capsys.readouterr()
    assert re.search(said, printed.err) and printed.err.count("\n") == 1 + ("sets" in said) and printed.out == ""


def test_an_option_of_other_commands_only_is_none_of_this_one(here: Here) -> None:
    written(here, "[tool.xbackend]\nthorough = true\nthreads = 1\n[tool.xbackend.bisect]\nwhat = 'compile'\n")
    assert main(["draw", "matpow"]) == DONE and configured.taken == {}


def test_a_switch_is_turned_off_where_there_is_one(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "matpow", "--no-quick"]) == WRONG
    assert "Unknown option: --no-quick: it is for a switch of draw" in capsys.readouterr().err


def test_the_gate_of_runs_takes_nothing_of_measuring(here: Here) -> None:
    written(here, "[tool.xbackend]\nthreads = 1\nquick = true\nfail = 'slower:100%'\n")
    here.runs(results(), results())
    assert main(["gate", "latest~1", "latest"]) == DONE
    assert configured.taken == {"--fail": "slower:100%"}
    assert asked(here, "gate", "--rev", "a", "--rev", "b", "mine.py:twice")["threads"] == 1


def test_what_came_from_the_file_is_said(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    def compare(*_: Any, configured: dict[str, str], **more: Any) -> Results:
        assert more["quick"] and more["threads"] == 1
        return results(settings=SessionSettings(configured=dict(configured)))

    written(here, "[tool.xbackend]\nthreads = 1\n[tool.xbackend.compare]\nquick = true\n")
    here.patch.setattr(session, "compare", compare)
    assert main(["compare"]) == DONE
    assert "pyproject.toml sets --threads 1 --quick\n" in capsys.readouterr().err
    assert main(["compare", "--json"]) == DONE
    assert json.loads((printed := capsys.readouterr()).out)["configured"] == {"--threads": "1", "--quick": ""}
    assert "pyproject.toml sets" not in printed.err
    (table,) = circumstances.settings(results(settings=SessionSettings(configured={"--threads": "1"})))
    assert "--threads" in str(table)
    written(here, "[tool.xbackend]\ndevices = 1\nbackend = 'numpy'\n")
    assert main(["cluster", "run", "job.py", "--ps", "1", "--workers", "1"]) == DONE
    jobs = read(Path("reports/add/cluster.json.gz"), Jobs)
    assert "from pyproject.toml: --devices=1, --backend=numpy" in str(build(jobs)[0])


def test_bench_is_pytests(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    written(here, "[tool.xbackend]\nnothing = 1\n")
    (here.folder / "bench").mkdir()
    called: list[list[str]] = []
    monkeypatch.setattr("xbackend.cli.bench.subprocess.call", lambda command: called.append(command) or 0)
    assert main(["bench", "--no-header", "--json"]) == DONE
    assert called[0][-2:] == ["--no-header", "--json"]


def test_every_option_of_every_command_can_be_set(here: Here) -> None:
    for name in COMMANDS:
        if name != "bench":
            for argument in application()[name].assemble_argument_collection():
                if argument.name.startswith("--"):
                    key = argument.name.removeprefix("--")
                    value = "true" if argument.is_flag() else "{a = 1}" if key in ("set", "devices-map") else "'1'"
                    written(here, f"[tool.xbackend.{name}]\n{key} = {value}\n")
                    table = configured._found()[1][name]
                    assert configured._tokens(argument, argument.name, table[key], "here"), (name, key)
