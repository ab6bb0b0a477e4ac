"""Faults during a measurement: in the worker, in the command, on the disk. Real commands and processes.

``XBACKEND_FAULTS=100`` kills and interrupts the command at as many moments each; the default is quick.
"""

from __future__ import annotations

import itertools
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiers
from fault_helpers import Command, end_all, left_over, mine, planted
from store_helpers import damages

from xbackend import environments, report
from xbackend.measure.plan import QUICK
from xbackend.measure.visited import AGAIN
from xbackend.results import schema
from xbackend.results.runs import Store
from xbackend.results.schema import Measurement, Results

pytestmark = pytest.mark.tier("standard")

POINTS = int(os.environ.get("XBACKEND_FAULTS", tiers.share(20)))
SEED = int(os.environ.get("XBACKEND_FAULTS_SEED", "0"))
SMALL = ("compare", "--quick", "--backends", "numpy", "--threads", 1, "--size", 16)
PROCESSES = 1  # of the candidate, and one more of its A/A pair
ORDER = ("before the run", "cut off without a process", "cut off with some", "complete")


@pytest.fixture(scope="module", autouse=True)
def made() -> None:
    """Measurements run in the locked environment: make it."""
    environments.sync("numpy")


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """End the processes that a failed test leaves."""
    yield
    end_all(mine())


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Commands in their own folders. None may leave a process."""
    started: list[Command] = []

    def make(*arguments: object, **options: object) -> Command:
        started.append(Command(tmp_path / f"command-{len(started)}", arguments, **options))  # type: ignore[arg-type]
        return started[-1]

    yield make
    assert left_over(started) == []


# --- what is left ------------------------------------------------------------------------------------------------


def check_processes(row: Measurement) -> None:
    """Every shown visit has rounds, and no process has more visits than planned."""
    assert all(1 <= len(visit.rounds) <= QUICK.rounds for process in row.processes for visit in process.visits)
    assert all(len(process.visits) <= AGAIN * QUICK.visits + 1 for process in row.processes)


def inspected(command: Command) -> str:
    """Check that a stopped command left whole and true files. Returns how far it came."""
    store = Store(command.store)
    runs = damages(store)
    assert runs in ([], [""])
    written = command.reports / "matpow" / "results.json.gz"
    if not runs:
        assert not written.exists()
        return ORDER[0]
    results = store.load("latest")
    (row,) = results.measurements
    check_processes(row)
    if results.complete:
        assert len(row.processes) == PROCESSES or "cannot be written" in row.reason
    else:
        assert not written.exists() or schema.load(written) == results  # interrupted, and then reported
        assert (row.status == "ok") == bool(row.processes) == (row.reason == "")
    text = (command.folder / "again").joinpath("report.md")
    report.write(results, text.parent)
    assert ("This run is incomplete." in text.read_text()) == (not results.complete)
    if results.complete:
        return ORDER[3]
    return ORDER[2] if row.processes else ORDER[1]


# --- the worker --------------------------------------------------------------------------------------------------

FAULTS = {
    16: ("kill", 1, "failed", 0, "was ended by SIGKILL"),
    17: ("segfault", 2, "failed", 1, "was ended by SIGSEGV"),
    18: ("leave", 1, "failed", 0, "exited by itself with status 3"),
    19: ("exit", 2, "failed", 1, "SystemExit in its worker"),
    20: ("garbage", 1, "ok", 2, ""),
    21: ("memory", 2, "failed", 1, "ran out of memory"),
    22: ("hang", 1, "failed", 0, "did not finish 'call' within 3 s and was ended"),
    23: ("", 0, "ok", 2, ""),
}
_WHOLE = pytest.mark.tier("exhaustive")
_BELOW = (16, 21, 23)  # one of each kind
PLANTED = FAULTS if tiers.chosen == tiers.TIERS[-1] else {size: FAULTS[size] for size in _BELOW}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Command, int]:
    """A session whose worker meets each fault in the middle of a round, and its exit code."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "count").mkdir()
    wanted = ",".join(f"{size}:{fault}:{when}" for size, (fault, when, *_) in PLANTED.items())
    sizes = ",".join(map(str, PLANTED))
    options = ("--processes", 2, "--limit", 3, "--size", sizes)
    environment = {"XBACKEND_FAULT": wanted, "XBACKEND_FAULT_FOLDER": str(folder / "count")}
    command = Command(folder / "run", (*SMALL[:-2], *options), environment, planted(folder))
    code = command.run()
    assert left_over([command]) == []
    return command, code


def row_of(results: Results, size: int) -> Measurement:
    (row,) = [m for m in results.measurements if m.parameters["size"] == size]
    return row


def test_after_faults_in_workers_the_rest_is_measured_and_the_run_is_whole(faulty: tuple[Command, int]) -> None:
    command, code = faulty
    assert code == 1
    assert "Traceback" not in command.errors, command.errors
    results = Store(command.store).load("latest")
    assert results.complete
    assert [(m.parameters["size"], m.status) for m in results.measurements] == [
        (size, status) for size, (_, _, status, *_) in PLANTED.items()
    ]
    report.write(results, command.folder / "again")
    text = (command.folder / "again" / "report.md").read_text()
    assert all(f"size={size}" in text for size in PLANTED)


@pytest.mark.parametrize(
    "size",
    [pytest.param(s, marks=() if s in _BELOW else _WHOLE, id=fault or "none") for s, (fault, *_) in FAULTS.items()],
)
def test_a_fault_in_a_timed_round_is_a_row_with_its_reason(faulty: tuple[Command, int], size: int) -> None:
    _, _, status, processes, words = FAULTS[size]
    store = Store(faulty[0].store)
    results = store.load("latest")
    row = row_of(results, size)
    assert (row.status, len(row.processes)) == (status, processes)
    assert words in row.reason
    check_processes(row)


# --- the command -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The seconds of an undisturbed command."""
    command = Command(tmp_path_factory.mktemp("undisturbed"), (*SMALL, "--processes", PROCESSES))
    start = time.perf_counter()
    assert command.run() == 0, command.errors
    assert inspected(command) == ORDER[3]
    assert left_over([command]) == []
    return time.perf_counter() - start


def struck(folder: Path, seconds: float, number: signal.Signals) -> Iterator[tuple[Command, int, str]]:
    """Commands whose process group got the signal at random moments, spread evenly over their duration.

    Yields each with its exit code and the moment.
    """
    generator = random.Random(SEED)
    for point in range(POINTS):
        for attempt in itertools.count():
            command = Command(folder / f"{point}-{attempt}", (*SMALL, "--processes", PROCESSES))
            moment, start = seconds * (point + generator.random()) / POINTS, time.perf_counter()
            process = command.start()
            try:
                process.wait(timeout=moment)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, number)
                code = process.wait(timeout=60)
                yield command, code, f"point {point}, after {moment:.3f} s of {seconds:.3f}: {command.errors}"
                break
            seconds = 0.95 * (time.perf_counter() - start)  # it was faster than its predecessor, and has ended


def told(states: list[str]) -> None:
    print("\n" + ", ".join(f"{state}: {states.count(state)}" for state in ORDER))


def test_killed_at_any_moment(tmp_path: Path, undisturbed: float) -> None:
    states = []
    for command, code, when in struck(tmp_path, undisturbed, signal.SIGKILL):
        assert code in (-signal.SIGKILL, 0), when  # 0: it ended at the same moment
        assert left_over([command]) == [], when
        states.append(inspected(command))
    told(states)


def test_interrupted_at_any_moment(tmp_path: Path, undisturbed: float) -> None:
    states = []
    for command, code, when in struck(tmp_path, undisturbed, signal.SIGINT):
        assert code in (130, -signal.SIGINT, 0), when
        if code == 130:
            assert "xbackend compare: interrupted" in command.errors, when
            assert "Traceback" not in command.errors, when
        assert left_over([command]) == [], when
        states.append(inspected(command))
    told(states)


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ended_while_its_worker_hangs(hanging: Command, number: signal.Signals) -> None:
    process = hanging.start()
    ready = hanging.folder / "hangs"
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, number)
    assert process.wait(timeout=60) == (130 if number == signal.SIGINT else -number)
    assert "Traceback" not in hanging.errors
    assert left_over([hanging]) == []
    assert inspected(hanging) == ORDER[1]


@pytest.fixture
def hanging(tmp_path: Path) -> Command:
    """A command whose first worker makes a file ``hangs`` in the middle of a round, and then hangs."""
    (tmp_path / "count").mkdir()
    environment = {"XBACKEND_FAULT": "16:hang:1", "XBACKEND_FAULT_FOLDER": str(tmp_path / "count")}
    return Command(tmp_path / "run", (*SMALL, "--processes", PROCESSES), environment, planted(tmp_path))


def test_interrupted_while_its_worker_starts(tmp_path: Path) -> None:
    """A worker's guard is in its own session from the first moment. A terminal's Ctrl-C goes to a process group, and so
    only to xbackend."""
    python = tmp_path / "python"
    interrupt = (
        "import os, signal, sys, time; group = os.getpgid(os.getppid()); assert group != os.getpgid(0); "
        "os.killpg(group, signal.SIGINT); time.sleep(0.2)"
    )
    python.write_text(f"#!{sys.executable}\n{interrupt}; os.execv({sys.executable!r}, ['python', *sys.argv[1:]])\n")
    python.chmod(0o755)
    command = Command(tmp_path / "run", SMALL)
    assert command.run(f"from xbackend.workers import remote; remote._python = lambda *_: {str(python)!r}") == 130
    assert "xbackend compare: interrupted" in command.errors
    assert "Traceback" not in command.errors, command.errors
    assert left_over([command]) == []


# --- the disk ----------------------------------------------------------------------------------------------------

# Limits of a file in bytes, and the content at each: nothing, a run, a process of it.
FULL = {1_000: ORDER[:1], 41_000: ORDER[1:2], 50_000: ORDER[2:3]}


@pytest.mark.parametrize("size", [1_000, 50_000, pytest.param(41_000, marks=_WHOLE)])
def test_a_disk_that_takes_no_more(command: Callable[..., Command], size: int) -> None:
    one = command(*SMALL, "--processes", PROCESSES)
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {resource.RLIM_INFINITY}))"
    assert one.run(limit) == 12
    assert "Traceback" not in one.errors
    assert "disk I/O error" in one.errors or "disk is full" in one.errors or "File too large" in one.errors
    assert left_over([one]) == []
    assert inspected(one) in FULL[size]


# --- the framework -----------------------------------------------------------------------------------------------


def test_without_a_framework_the_others_are_measured(command: Callable[..., Command], tmp_path: Path) -> None:
    home, numpy = tmp_path / "home", environments.get("numpy").path
    (home / "environments").mkdir(parents=True)
    (home / "environments" / numpy.name).symlink_to(numpy)
    offline = {"XBACKEND_HOME": str(home), "UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache")}
    one = command(*SMALL[:2], "--backends", "tensorflow,numpy", *SMALL[4:], "--processes", 1, environment=offline)
    assert one.run() == 1, one.errors
    results = Store(one.store).load("latest")
    assert results.complete
    missing, measured = results.measurements
    assert (missing.backend, missing.status, missing.processes) == ("tensorflow", "missing", [])
    assert "package index could not be reached" in missing.reason
    assert (measured.status, len(measured.processes)) == ("ok", 1)


def test_processes_that_are_left_would_be_found(tmp_path: Path) -> None:
    one = Command(tmp_path, ("--version",))
    process = one.start("import subprocess; subprocess.Popen(['sleep', '600'])")
    process.wait(timeout=60)
    (line,) = left_over([one], patience=0.5)
    assert "sleep 600" in line
