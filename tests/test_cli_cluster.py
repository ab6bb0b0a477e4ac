"""``xbackend cluster`` as a user types it: refusals, output, and that an ended job leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fault_helpers import Command, left_over

from xbackend.cli import DONE, INCOMPLETE, STORE, WRONG, main
from xbackend.cluster import status

JOBS = """
import time
import numpy as np
import xbackend as xb

def total(task):
    return xb.shared(np.float64(0.0), "total", device="/job:ps/task:0")

@xb.job(steps=10)
def counted(task):
    \"\"\"Each worker adds one.\"\"\"
    own = total(task)
    xb.update(own, own + 1.0)
    return own

@xb.job(steps=100_000)
def endless(task):
    own = xb.shared(np.float64(0.0), "own")
    xb.update(own, xb.all_reduce([own], across=task)[0] + 1.0)
    return own

def plain(task):
    return xb.asarray(np.float64(task.index))

@xb.job(steps=3)
def broken(task):
    raise RuntimeError("no such thing")

@xb.job(steps=3)
def unfed(task, x):
    return x

@xb.job(steps=3)
def misfed(task, x):
    return x

@xb.job(steps=3)
def overfed(task, x):
    return x

@overfed.data
def two(task, number):
    return np.ones(2), np.ones(3)

@xb.job
def none(task, x):
    return x

@none.data
def no_array(task, number):
    return None

@xb.job
def alone():
    return 1.0

@xb.job
def across(task):
    return xb.all_reduce([xb.asarray(1.0)], across=2)[0]

@xb.job
def said(task):
    return "nothing"

@misfed.data
def rows(task, number):
    return [1.0 / (2 - number)]
"""
OVERFLOW = """
import numpy as np
import xbackend as xb

def descent(task, device):
    \"\"\"Gradient descent on w**4 whose steps are far too large: -4e7, 2.6e29, -inf, then NaN.\"\"\"
    w = xb.shared(np.float32([10.0, 0.0]), "w", device=device)
    xb.update(w, w - xb.all_reduce([1e4 * w ** 3], across=task)[0] if device is None else w - 1e4 * w ** 3)
    return xb.asarray(np.float32(task.index))

@xb.job(steps=3)
def mirrored(task):
    return descent(task, None)

@xb.job(steps=6)
def served(task):
    return descent(task, "/job:ps/task:0")
"""
ONE = (
    "import numpy as np\nimport xbackend as xb\n@xb.job(steps=2)\ndef only(task): return xb.asarray(np.float64(3.0))\n"
)
PATIENCE = 300.0  # limit in seconds for events that take two


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "one.py").write_text(ONE)
    (tmp_path / "none.py").write_text("def step(task): return 1.0\n")
    (tmp_path / "text.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(folder: Path) -> Iterator[Callable[..., Command]]:
    """Commands beside the user's files. None may leave a process."""
    started: list[Command] = []

    def make(*arguments: object) -> Command:
        started.append(Command(folder, ("cluster", *arguments)))
        return started[-1]

    yield make
    assert left_over(started) == []


# --- what is refused ----------------------------------------------------------------------------------------------

REFUSED: dict[str, Any] = {
    "nothing to run": (["run"], "name what to run: xbackend cluster run FILE.py:FUNCTION"),
    "another action": (["dance"], "run"),
    "no worker": (["run", "one.py", "--workers", "0"], "--workers"),
    "fewer servers than none": (["run", "one.py", "--ps", "-1"], "--ps"),
    "servers that are no number": (["run", "one.py", "--ps", "two"], "--ps"),
    "no step": (["run", "one.py", "--steps", "0"], "--steps"),
    "no time": (["run", "one.py", "--limit", "0"], "--limit"),
    "restarts that are no number": (["run", "one.py", "--restarts", "often"], "--restarts"),
    "no steps between checkpoints": (["run", "one.py", "--every", "0"], "--every"),
    "no such backend": (["run", "one.py", "--backend", "numpi"], "numpi"),
    "no such file": (["run", "nothing.py"], "there is no file nothing.py"),
    "no file of Python": (["run", "text.txt"], "is not FILE.py:FUNCTION"),
    "a file without a job": (["run", "none.py"], "none.py has no job: write @xb.job above a function of a task"),
    "a file with several": (["run", "jobs.py"], "jobs.py has counted"),
    "no such function": (["run", "jobs.py:nothing"], "has no function 'nothing'; it has"),
    "no parameter server for its variable": (["run", "jobs.py:counted"], "there is none: --ps 1"),
    "out of step with nothing to share": (
        ["run", "jobs.py:plain", "--asynchronous"],
        "--asynchronous is for tasks that share variables on a parameter server: --ps 1",
    ),
    "an all-reduce out of step": (
        ["run", "jobs.py:endless", "--asynchronous", "--ps", "1"],
        "keeps them in step, and --asynchronous does not",
    ),
    "an engine without servers": (
        ["run", "jobs.py:counted", "--ps", "1", "--backend", "jax"],
        "no parameter servers here: jax.distributed has collectives only",
    ),
    "a function that raises": (["run", "jobs.py:broken"], "broken raised RuntimeError"),
    "a function without its data": (
        ["run", "jobs.py:unfed"],
        "unfed(task, x) takes arrays, and there are none: write @unfed.data above a function of (task, number)",
    ),
    "data that are one array too many": (
        ["run", "jobs.py:overfed"],
        "overfed(task, x) and the data of /job:worker/task:0 for step 0, 2 arrays: too many positional arguments",
    ),
    "data that are nothing": (
        ["run", "jobs.py:none"],
        "array 0 of the data of /job:worker/task:0 for step 0: dtype object is not supported",
    ),
    "a function without a task": (["run", "jobs.py:alone"], "job alone() takes no task: write def alone(task, ...)"),
    "an all-reduce across a number": (["run", "jobs.py:across"], "across=2: across=task, the task that a job's"),
    "a string that it returns": (["run", "jobs.py:said"], "jobs.py:"),
    "a folder of reports that is a file": (
        ["run", "one.py", "--reports", "text.txt"],
        "the report cannot be written to text.txt/only: ",
        STORE,
    ),
    "a folder of checkpoints that is a file": (
        ["run", "one.py", "--checkpoints", "text.txt"],
        "checkpoints cannot be kept in text.txt: ",
        STORE,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_run_is_refused_before_anything_starts(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def starts(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("xbackend.workers.process.WorkerProcess.__init__", starts)
    arguments, words, *code = REFUSED[name]
    assert main(["cluster", *arguments]) == (code[0] if code else WRONG)
    told = capsys.readouterr()
    assert words in told.err and "Traceback" not in told.err, told.err
    assert told.err.startswith("xbackend cluster: ")


def test_what_raises_is_shown_with_the_users_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "run", "jobs.py:broken"]) == WRONG
    told = capsys.readouterr().err
    line = JOBS[: JOBS.index("raise RuntimeError")].count("\n") + 1
    assert f'jobs.py", line {line}, in broken' in told and "xbackend/cluster" not in told


# --- what is run --------------------------------------------------------------------------------------------------


@pytest.mark.tier("standard")
def test_the_only_job_of_a_file_is_run_and_what_it_comes_to_is_said(command: Callable[..., Command]) -> None:
    one = command("run", "one.py")
    assert one.run() == DONE, one.errors
    assert re.search(r"^/job:worker/task:1  step 2  3  \d+ steps/s$", one.output, re.MULTILINE), one.output
    assert "numpy, 2 workers: 2 steps each, joined by MPI (mpi4py with MPICH)" in one.output


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize(("name", "servers"), [("mirrored", 0), ("served", 1)])
def test_a_job_whose_weights_overflow_is_not_verified(
    name: str, servers: int, command: Callable[..., Command], folder: Path
) -> None:
    (folder / "overflow.py").write_text(OVERFLOW)
    one = command("run", f"overflow.py:{name}", "--ps", servers)
    assert one.run() == INCOMPLETE, one.output
    assert re.search(r"^numpy +not verified ", one.output, re.MULTILINE), one.output
    report = (folder / "reports" / name / "cluster.md").read_text()
    assert re.search(r"^\| numpy \|.* not verified ", report, re.MULTILINE), report
    assert command("run", f"overflow.py:{name}", "--ps", servers, "--allow-nan").run() == DONE


@pytest.mark.tier("standard")
def test_a_job_goes_on_from_its_newest_checkpoint(command: Callable[..., Command], folder: Path) -> None:
    asked = ("run", "jobs.py:counted", "--ps", 1, "--checkpoints", "kept", "--every", 5)
    first = command(*asked)
    assert first.run() == DONE, first.errors
    assert "/job:ps/task:0/total = 20" in first.output and "goes on" not in first.output
    assert list((folder / "kept").iterdir())
    again = command(*asked, "--steps", 13)
    assert again.run() == DONE, again.errors
    assert "goes on from step 10 of kept" in again.output.replace(str(folder) + "/", "")
    assert "/job:ps/task:0/total = 26" in again.output


@pytest.mark.tier("exhaustive")
def test_an_error_in_the_data_of_a_later_step_ends_all(command: Callable[..., Command]) -> None:
    one = command("run", "jobs.py:misfed")
    assert one.run() == WRONG
    assert "ZeroDivisionError" in one.errors and "Traceback" not in one.errors, one.errors


# --- what is ended ------------------------------------------------------------------------------------------------


def runs(one: Command, process: subprocess.Popen[bytes]) -> None:
    """Wait until its tasks take steps."""
    end = time.monotonic() + PATIENCE
    while "step 1 " not in one.output:
        assert process.poll() is None and time.monotonic() < end, one.output + one.errors
        time.sleep(0.1)


def listed(process: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The rows of ``cluster status`` for one launcher and its tasks."""
    capsys.readouterr()
    assert main(["cluster", "status"]) == DONE
    found, inside = [], False
    for line in capsys.readouterr().out.splitlines():
        if "launcher" in line:
            inside = f" {process} " in f"{line} "
        if inside and ("launcher" in line or "/job:" in line):
            found.append(line)
    return found


@pytest.mark.tier("exhaustive", "SIGTERM", "SIGHUP", "SIGKILL")
@pytest.mark.tier("standard")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_nothing_is_left_running_of_a_job_that_is_ended(
    name: str, command: Callable[..., Command], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended by Ctrl-C, by another process, with its terminal, or killed. Until then `status` shows it."""
    monkeypatch.setenv("COLUMNS", "300")  # a line for each task
    one = command("run", "jobs.py:endless")
    process = one.start()
    try:
        runs(one, process)
        shown = listed(process.pid, capsys)
        assert len(shown) == 3 and "endless" in shown[0] and "numpy" in shown[0]
        tasks = [int(re.search(rf"/job:worker/task:{k}\D+(\d+)", line)[1]) for k, line in enumerate(shown[1:])]  # type: ignore[index]
        assert all(Path(f"/proc/{task}").exists() for task in tasks)
        os.kill(process.pid, signal.Signals[name])
        code = process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert code == (130 if name == "SIGINT" else -signal.Signals[name])
    assert "Traceback" not in one.errors, one.errors
    assert left_over([one]) == []
    assert not any(Path(f"/proc/{task}").exists() for task in tasks)
    assert listed(process.pid, capsys) == [], "its folder is removed"


def test_where_none_runs_status_is_a_heading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path))
    assert main(["cluster", "status"]) == DONE
    shown = capsys.readouterr().out
    assert re.findall(r"\w+", shown) == ["started", "job", "backend", "task", "process", "doing"]


def test_clusters_are_listed_in_the_order_of_their_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path))
    started = [f"2026-01-0{day}T00:00:00+00:00" for day in (3, 1, 2, 4)]
    with ExitStack() as stack:
        for number, at in enumerate(started):
            stack.enter_context(status.told(str(number), "numpy"))({"tasks": [], "started": at})
        assert [row[:2] for row in status.rows()] == sorted([at, str(number)] for number, at in enumerate(started))


def test_a_folder_that_a_launcher_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path))
    left = tmp_path / "clusters" / ".cluster.new-aa"
    left.mkdir(parents=True)
    (left / "status.json").write_text("{")
    with status.told("job", "numpy"):
        assert left.exists(), "one that is new may be locked in a moment"
    os.utime(left, (0, 0))
    with status.told("job", "numpy"):
        assert main(["cluster", "status"]) == DONE
        assert capsys.readouterr().out.count("launcher") == 1 and not left.exists()
    assert main(["cluster", "status"]) == DONE
    assert "launcher" not in capsys.readouterr().out
