"""Every exit code of every command, as docs/commands.md has them."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from store_helpers import MACHINE, STEADY, cut_off, finished, results, row

from xbackend import cli, environments, report
from xbackend.analysis.gate import GateOutcome
from xbackend.backends import registry
from xbackend.cli import COMMANDS, bench, bisect, doctor, main
from xbackend.environments import system_packages
from xbackend.errors import BackendUnavailable, EnvironmentFailed, StoreError
from xbackend.measure import matrix, session
from xbackend.measure.bisect import Beside, Bisection, Found
from xbackend.results.runs import Store
from xbackend.results.schema import Results, SessionSettings

pytestmark = pytest.mark.tier("standard")

DOCUMENT = (Path(__file__).parent.parent / "docs" / "commands.md").read_text()
OF_ALL = 130


def documented() -> dict[str, set[int]]:
    """The documented codes of each command."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", DOCUMENT, re.MULTILINE)
    return {name: set(map(int, re.findall(r"\b\d+\b", words))) for name, words in rows}


class Here:
    """A folder with a function, a store and reports, for planting faults."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch, self.store = folder, patch, Store(folder / ".xbackend" / "runs")
        patch.chdir(folder)
        patch.setattr(report, "render", lambda found, baseline=None: {"report.md": b"a report"})
        patch.setattr(matrix, "ready", lambda runs, say: {})
        (folder / "mine.py").write_text(
            "import numpy\ndef inputs(): return [numpy.ones(2)]\ndef twice(x): return x + x\n"
        )

        (folder / "trained.py").write_text(
            "import numpy as np\nimport xbackend as xb\n"
            "@xb.model()\ndef line(w, x): return xb.mean((x * w['a'] - 1.0) ** 2)\n"
            "@line.weights\ndef weights(rng): return {'a': np.array(0.5)}\n"
            "@line.data\ndef data(rng): return (np.ones(3),)\n"
        )

        (folder / "nan.py").write_text(  # NaN is no agreement
            "import numpy as np\nimport xbackend as xb\n"
            "def inputs(): return [np.array([-1.0, 1.0])]\n"
            "def logs(x): return xb.log(x)\n"
            "def root(x): return xb.linalg.cholesky(xb.reshape(x, (2, 1)) @ xb.reshape(x, (1, 2)))\n"
            "@xb.model()\ndef line(w, x): return xb.mean(xb.log(x * w['a']))\n"
            "@line.weights\ndef weights(rng): return {'a': np.array(-0.5)}\n"
            "@line.data\ndef data(rng): return (np.ones(3),)\n"
            "@xb.job(steps=2)\n"
            "def job(task):\n"
            "    w = xb.shared(np.array([1.0, -1.0]), 'w')\n    xb.update(w, xb.log(w))\n    return xb.asarray(1.0)\n"
        )

        (folder / "job.py").write_text(
            "import numpy as np\nimport xbackend as xb\n"
            "@xb.job\ndef add(task):\n"
            "    total = xb.shared(np.float64(0.0), 'total', '/job:ps/task:0')\n"
            "    xb.update(total, total + 1.0)\n    return total\n"
        )

    def runs(self, *measured: Results) -> None:
        for one in measured:
            finished(self.store, one)

    def measures(self, found: Results | Exception) -> None:
        """Plan the result of `compare`."""

        def compare(*_: Any, **__: Any) -> Results:
            if isinstance(found, Exception):
                raise found
            return found

        self.patch.setattr(session, "compare", compare)

    def bisects(self, found: Found | Exception) -> None:
        """Plan the result of `bisect`."""

        def look(_: Any) -> Found:
            if isinstance(found, Exception):
                raise found
            return found

        self.patch.setattr(bisect, "releases", lambda wanted: TWO)
        self.patch.setattr(Bisection, "run", look)

    def opens(self) -> None:
        """Let no backend open."""

        def fails(*_: Any, **__: Any) -> None:
            raise BackendUnavailable("it is broken")

        self.patch.setattr(matrix, "RemoteBackend", fails)

    def reported(self, data: bytes | None = None) -> None:
        report.write(results(), self.folder / "reports" / "one")
        if data is not None:
            (self.folder / "reports" / "one" / "results.json.gz").write_bytes(data)

    def looks(self, state: str) -> None:
        self.patch.setattr(doctor, "diagnose", lambda name: (state, "", ""))


def slower(factor: float = 2.0, **fields: Any) -> Results:
    return results(row(medians=[factor * m for m in STEADY]), **fields)


ELSEWHERE = msgspec.structs.replace(MACHINE, fingerprint="elsewhere")
SETTINGS = SessionSettings(threads=2, seed=0, warnings=[])
Plant = Callable[[Here], object]
BISECT = ["bisect", "pytensor>=2.30", "--what", "numbers"]
TWO = ["pytensor==2.30.0", "pytensor==2.31.0"]
THREE = [*TWO, "pytensor==2.32.0"]
SAME, OTHER = (Beside(difference=difference, passes=1e-5) for difference in (0.0, 1.0))


def found(releases: list[str], beside: Beside, high: str = "") -> Found:
    """The result of a bisection between the first and the last of these."""
    first, last = releases[0], releases[-1]
    return Found(releases=releases, first=first, last=last, beside={last: beside}, low=first, high=high, step=beside)


CASES: list[tuple[int, Sequence[str], Plant]] = [
    (0, ["compare"], lambda here: here.measures(results(settings=SETTINGS))),
    (1, ["compare"], lambda here: here.measures(results(row(medians=[], status="failed"), settings=SETTINGS))),
    (
        1,
        ["compare", "--backends", "numpy"],
        lambda here: here.measures(results(row(status="missing"), settings=SETTINGS)),
    ),
    (2, ["compare", "nothing"], lambda here: None),
    (12, ["compare"], lambda here: here.measures(StoreError("no room"))),
    (0, ["run", "mine.py:twice", "--backends", "numpy"], lambda here: None),
    (1, ["run", "mine.py:twice", "--backends", "numpy"], lambda here: here.opens()),
    (1, ["run", "nan.py:logs", "--backends", "numpy"], lambda here: None),
    (0, ["run", "nan.py:logs", "--backends", "numpy", "--allow-nan"], lambda here: None),
    (1, ["run", "nan.py:root", "--backends", "jax"], lambda here: None),  # NumPy gives NaN, which is no reference
    (2, ["run", "mine.py:nothing"], lambda here: None),
    (0, ["train", "trained.py:line", "--backends", "numpy"], lambda here: None),
    (1, ["train", "trained.py:line", "--backends", "numpy"], lambda here: here.opens()),
    (1, ["train", "nan.py:line", "--backends", "numpy"], lambda here: None),
    (2, ["train", "mine.py:twice"], lambda here: None),
    (0, ["cluster", "run", "job.py", "--ps", "1", "--workers", "1"], lambda here: None),
    (1, ["cluster", "run", "nan.py:job", "--workers", "1"], lambda here: None),
    # JAX has no parameter servers.
    (1, ["cluster", "run", "job.py", "--ps", "1", "--workers", "1", "--backend", "numpy,jax"], lambda here: None),
    (2, ["cluster", "run", "mine.py"], lambda here: None),
    (
        12,
        ["cluster", "run", "job.py", "--ps", "1", "--workers", "1", "--reports", "taken"],
        lambda here: (here.folder / "taken").write_text(""),
    ),
    (0, ["translate", "matpow", "--to", "jax"], lambda here: None),
    (2, ["translate", "matpow", "--to", "fortran"], lambda here: None),
    (0, ["draw", "matpow"], lambda here: None),
    (2, ["draw", "nothing"], lambda here: None),
    (0, ["devices", "--backends", "numpy"], lambda here: None),
    (1, ["devices", "--backends", "numpy"], lambda here: here.opens()),
    (2, ["devices", "--backends", "nothing"], lambda here: None),
    (0, ["doctor"], lambda here: here.looks("available")),
    (1, ["doctor"], lambda here: here.looks("broken")),
    (2, ["doctor", "--tests"], lambda here: None),
    (
        12,
        ["doctor", "--gpu-check", "--reports", "taken"],
        lambda here: (here.folder / "taken").write_text(""),
    ),
    (0, [*BISECT, "mine.py:twice"], lambda here: here.bisects(found(TWO, OTHER, high=TWO[1]))),
    (14, [*BISECT, "mine.py:twice"], lambda here: here.bisects(found(TWO, SAME))),
    (15, [*BISECT, "mine.py:twice"], lambda here: here.bisects(found(THREE, OTHER, high=THREE[2]))),
    (1, [*BISECT, "mine.py:twice"], lambda here: here.bisects(Found(releases=TWO))),
    (2, [*BISECT, "nothing"], lambda here: None),
    (12, [*BISECT, "mine.py:twice"], lambda here: here.bisects(StoreError("no room"))),
    (0, ["env", "list"], lambda here: None),
    (2, ["env", "sync", "nothing"], lambda here: None),
    (0, ["report"], lambda here: here.reported()),
    (2, ["report"], lambda here: None),
    (12, ["report"], lambda here: here.reported(b"{")),
    (0, ["history"], lambda here: (here.runs(results()), (here.folder / "reports").mkdir())),
    (1, ["history"], lambda here: (here.runs(results()), here.store.path.write_text("damaged"))),
    (2, ["history"], lambda here: None),
    (12, ["history"], lambda here: (here.folder / ".xbackend").write_text("")),
    (0, ["runs"], lambda here: here.runs(results())),
    (2, ["runs", "--size", "3"], lambda here: None),
    (12, ["runs", "latest"], lambda here: None),
    (0, ["gate", "latest~1", "latest"], lambda here: here.runs(slower(1.0), slower(1.0))),
    (2, ["gate", "latest", "latest"], lambda here: here.runs(results())),
    (10, ["gate", "latest~1", "latest"], lambda here: here.runs(slower(1.0), slower(2.0))),
    (11, ["gate", "latest~1", "latest"], lambda here: (here.runs(results()), cut_off(here.store))),
    (12, ["gate", "latest~1", "latest"], lambda here: here.runs(results())),
    (13, ["gate", "latest~1", "latest"], lambda here: here.runs(results(row("a")), results(row("b")))),
    (14, ["gate", "latest~1", "latest"], lambda here: here.runs(results(), results(machine=ELSEWHERE))),
    (2, ["bench"], lambda here: None),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("code", "arguments", "plant"), CASES, ids=lambda part: str(part) if type(part) is int else None
)
def test_a_command_ends_with(code: int, arguments: Sequence[str], plant: Plant, here: Here) -> None:
    plant(here)
    assert main(arguments) == code


def test_without_an_oracle_there_is_no_reference_and_the_first_line_says_so(
    here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "nan.py:root", "--backends", "numpy"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("there is no oracle, so that no result is called right: root has no oracle")


def test_every_code_of_every_command_is_documented_and_tested() -> None:
    tested: dict[str, set[int]] = {name: {OF_ALL} for name in COMMANDS}
    for code, arguments, _ in CASES:
        tested[arguments[0]].add(code)
    assert documented() == tested
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", DOCUMENT, re.MULTILINE)}
    assert explained == {*map(int, GateOutcome), bisect.RANGE, cli.DONE, cli.INCOMPLETE, cli.WRONG, cli.STORE, OF_ALL}
    assert explained == set().union(*tested.values())


@pytest.mark.parametrize("command", documented())
def test_interrupted_a_command_ends_with_130(command: str, here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = next(arguments for _, arguments, _ in CASES if arguments[0] == command)
    module = import_module(f"xbackend.cli.{command}")

    @functools.wraps(getattr(module, command))  # keeps the options of the command
    def interrupt(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    here.patch.setattr(module, command, interrupt)
    assert main(arguments) == OF_ALL
    assert capsys.readouterr().err == f"xbackend {command}: interrupted\n"


def test_who_reads_the_output_may_end_before() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:
        command = [sys.executable, "-m", "xbackend", "draw", "matpow"]
        ended = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("code", [0, 1, 5, 10, 14])
def test_bench_ends_as_pytest_does(code: int, here: Here) -> None:
    (here.folder / "bench").mkdir()
    (here.folder / "bench" / "conftest.py").write_text("")
    here.patch.setattr(bench.subprocess, "call", lambda command: code)
    assert main(["bench", "--benchmark-compare"]) == code


def test_install_ends_with_what_it_could_do(here: Here) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise EnvironmentFailed("no network")

    here.patch.setattr(system_packages, "missing", lambda name: ())
    here.patch.setattr(environments, "sync", lambda *_, **__: None)
    assert main(["doctor", "--install", "--backends", "numpy"]) == 0
    here.patch.setattr(environments, "sync", fails)
    assert main(["doctor", "--install", "--backends", "numpy"]) == 1
    assert main(["env", "sync", "numpy"]) == 2


@pytest.mark.parametrize("columns", [None, 80, 120])
def test_doctor_fits_and_says_what_is_the_same_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int | None
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", str(columns))
    lacking, versions = [f"package{i}-dev" for i in range(12)], ", ".join(f"package{i} {i}.10.1" for i in range(30))

    def diagnose(name: str) -> tuple[str, str, str]:
        if registry.get(name).environment in ("aesara", "theano"):
            return "missing", f"packages of the system: {', '.join(lacking)}", "xbackend doctor --install"
        return "available", f"{registry.get(name).environment} 1.0, {versions}", ""

    monkeypatch.setattr(doctor, "diagnose", diagnose)
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) <= (columns or 80) and len(lines) < 60
    said = "".join("".join(lines).split())
    assert all(said.count(package) == 1 for package in lacking)
    assert all(name in said for name in registry.names())
    assert lines[-1] == "to measure: xbackend compare --quick --backends " + ",".join(
        name for name in registry.names() if diagnose(name)[0] == "available"
    )
