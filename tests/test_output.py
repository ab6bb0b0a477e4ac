"""``--json`` and ``--quiet``: what every command prints fits the one schema of docs/output.schema.json."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest
from json_schemas import wrong
from store_helpers import finished, results, row
from test_exit_codes import CASES, Here, Plant

from xbackend.cli import COMMANDS, DONE, STORE, WRONG, console, main, output
from xbackend.cli.options import PRINTED
from xbackend.results.runs import Store

pytestmark = pytest.mark.tier("standard")

SCHEMA = json.loads((Path(__file__).parent.parent / "docs" / "output.schema.json").read_text())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(tmp_path, monkeypatch)


def test_the_schema_is_that_of_the_document() -> None:
    assert output.schema() == SCHEMA, "python -m xbackend.cli.output > docs/output.schema.json"


def test_what_does_not_fit_is_found() -> None:
    right = {"command": "env", "exit_code": 0, "rows": [{"environment": "a", "state": "ready"}]}
    assert wrong(right, SCHEMA, SCHEMA) == []
    for planted in (
        {"command": "nothing"}, {"exit_code": "0"}, {"exit_code": True}, {"rows": [{"state": "ready"}]},
        {"rows": [{"environment": "a", "state": None}]}, {"more": 1}, {"notes": [1]},
    ):  # fmt: skip
        assert wrong({**right, **planted}, SCHEMA, SCHEMA), planted
    assert wrong({"command": "env"}, SCHEMA, SCHEMA) == ["output has no exit_code"]


def test_every_command_with_a_result_takes_the_options() -> None:
    assert {*output.KINDS} == {*COMMANDS} - {"bench"}
    for name in output.KINDS:
        function = getattr(import_module(f"xbackend.cli.{name}"), name)
        assert inspect.signature(function).parameters["printed"].default == PRINTED


ONE_EACH = {(arguments[0], code): (code, arguments, plant) for code, arguments, plant in reversed(CASES)}


@pytest.mark.parametrize(
    ("code", "arguments", "plant"),
    [case for (name, _), case in ONE_EACH.items() if name in output.KINDS],
    ids=lambda part: "-".join(part[:1]) if isinstance(part, list) else str(part) if type(part) is int else None,
)
def test_the_output_fits_the_schema(
    code: int, arguments: Sequence[str], plant: Plant, here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(here)
    assert main([*arguments, "--json", "--quiet"]) == code
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert wrong(told, SCHEMA, SCHEMA) == []
    assert (told["command"], told["exit_code"]) == (arguments[0], code)
    assert (printed.out.isascii() and told["answer"]) or told["error"] in printed.err
    rows = [*told.get("rows", []), *told.get("environments", [])]
    assert rows or code or arguments[0] in ("draw", "translate", "report", "history")


def test_rows_are_those_of_the_results(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    finished(here.store, results(row(), row("other", parameters={"size": 8, "n": float("nan")})))
    assert main(["runs", "latest", "--json"]) == DONE
    told = json.loads(capsys.readouterr().out)
    assert [one["backend"] for one in told["run"]["rows"]] == ["numpy", "other"]
    assert told["run"]["rows"][0]["seconds"] == pytest.approx(1.0, rel=0.01)
    assert told["run"]["rows"][1]["parameters"] == {"size": 8, "n": None}  # JSON has no NaN


def test_quiet_prints_the_answer_alone(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "mine.py:twice", "--backends", "numpy", "--quiet"]) == DONE
    assert (printed := capsys.readouterr()).out == "agree with the oracle: numpy\n" and printed.err == ""
    assert main(["draw", "matpow", "--quiet"]) == DONE
    assert capsys.readouterr().out.startswith("flowchart TD\n")
    assert main(["runs", "none", "--quiet"]) == STORE
    assert (printed := capsys.readouterr()).out == "" and "there is no run 'none'" in printed.err
    assert console.shown == console.Shown(text=True, progress=True)


def test_a_wrong_command_line_is_json_too(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--json", "--size", "3"]) == WRONG
    told = json.loads(capsys.readouterr().out)
    assert told["error"].startswith("Unknown option: --size") and wrong(told, SCHEMA, SCHEMA) == []
    assert main(["nothing", "--json"]) == WRONG
    assert capsys.readouterr().out == ""


def test_no_text_from_outside_steers_a_terminal(tmp_path: Path) -> None:
    red = "red\x1b[31m\u202e"
    finished(Store(tmp_path), results(name=red))
    command = [sys.executable, "-m", "xbackend", "runs", "--store", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.isascii() and "\x1b" not in done.stdout
    assert json.loads(done.stdout)["rows"][0]["name"] == red
