"""Foreign things in a store or among reports: no command hangs, traces back or ends with an undocumented code."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import socket
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_helpers import begin, cut_off, damages, finished, results, row

from xbackend import report
from xbackend.cli import main
from xbackend.errors import DamagedStore, StoreError
from xbackend.results.runs import FILE, Store

LIMIT = 20  # seconds, for commands that take 0.1


def fifo(path: Path) -> None:
    os.mkfifo(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(5 << 30)


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, Callable[[Path], object]] = {
    "fifo": fifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "sparse": sparse,
    "itself": lambda path: path.symlink_to(path.name),
    "nowhere": lambda path: path.symlink_to("nowhere"),
    "folder": lambda path: path.mkdir(),
    "socket": listening,
    "kernel": lambda path: path.symlink_to("/proc/kmsg"),
}
PLACES = ("runs.sqlite", "runs.sqlite-journal", "runs.sqlite-wal", "runs.sqlite-shm")


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    def late(number: int, frame: object) -> None:
        raise AssertionError(f"it took more than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def commands(folder: Path) -> dict[str, int]:
    """The exit codes of all commands that read the store or the reports."""
    there = ["--store", str(folder / "runs")]
    reports = ["--reports", str(folder / "reports")]
    codes = {}
    for arguments in (
        ["runs", *there],
        ["runs", "latest", *there],
        ["runs", str(folder / "reports" / "one"), *there],
        ["gate", "latest~1", "latest", *there],
        ["gate", "latest", "latest~1", *there],
        ["history", *there, *reports],
        ["report", "--run", "latest", *there, *reports],
        ["report", *reports],
    ):
        with in_time(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            codes[" ".join(arguments[:2]).partition(" --")[0]] = main(arguments)
    return codes


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a finished run and one that was cut off, and a report."""
    folder = tmp_path_factory.mktemp("good")
    store = Store(folder / "runs")
    finished(store, results(row(medians=[0.5] * 5)))
    report.write(results(row(medians=[0.5] * 5)), folder / "reports" / "one")
    cut_off(store)
    return folder


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look of a report is tested elsewhere."""
    monkeypatch.setattr(report, "render", lambda found, baseline=None: {"report.md": b"a report"})


def copied(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "copy"))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_the_place_of_a_file_of_the_store_hangs_a_command(
    good: Path, tmp_path: Path, kind: str, place: str
) -> None:
    folder = copied(good, tmp_path)
    store = Store(folder / "runs")
    path = folder / "runs" / place
    path.unlink(missing_ok=True)
    KINDS[kind](path)
    with in_time():
        listed = list(store.runs())
    # SQLite ignores an empty journal, and a journal that is no file.
    harmless = place != FILE and not damages(store)[-1]
    assert harmless or listed[-1][0] == FILE
    codes = commands(folder)
    assert codes.pop("runs") == 0 and codes.pop("report") == 0 and codes.pop("history") in (0, 1, 12)
    assert set(codes.values()) <= ({0, 11} if harmless else {0, 12}), codes
    with in_time(), contextlib.suppress(StoreError):
        assert begin(store).name == store.names()[-1]
    if place == FILE and kind in ("fifo", "device", "terminal", "sparse", "socket", "kernel"):
        assert isinstance(listed[-1][1], StoreError) and store.load("latest"), "it was set aside, and a run can be made"


@pytest.mark.parametrize("kind", KINDS)
def test_no_content_of_the_reports_hangs_a_command(good: Path, tmp_path: Path, kind: str) -> None:
    folder = copied(good, tmp_path)
    for place in ("one/results.json.gz", "two", "history.md", "index.md", ".hidden"):
        path = folder / "reports" / place
        path.unlink(missing_ok=True)
        KINDS[kind](path)
    (folder / "reports" / "three").mkdir()
    KINDS[kind](folder / "reports" / "three" / "results.json.gz")
    codes = commands(folder)
    assert codes["runs latest"] == 0
    assert set(codes.values()) <= {0, 2, 11, 12}, codes


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "folder"])
def test_no_store_hangs_a_command(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "runs")
    for arguments in (["runs"], ["runs", "latest"], ["gate", "a", "b"], ["history"], ["report", "--run", "latest"]):
        with in_time(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main([*arguments, "--store", str(tmp_path / "runs")])
        assert code == 12 or (kind == "nowhere" and code in (0, 2)), (arguments, code)
    with in_time(), pytest.raises(StoreError, match="no run can be made"):
        begin(Store(tmp_path / "runs"))


def test_a_pipe_is_damage_and_set_aside(good: Path, tmp_path: Path) -> None:
    store = Store(copied(good, tmp_path) / "runs")
    store.path.unlink()
    os.mkfifo(store.path)
    with in_time(), pytest.raises(DamagedStore, match=r"is no file.*set aside as runs\.sqlite\.damaged"):
        store.load("latest")
    assert (store.folder / "runs.sqlite.damaged").is_fifo()


# The other user must be able to read the interpreter.
@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("place", ["runs.sqlite", "runs", "reports", "reports/one"])
def test_what_may_not_be_read_is_an_error(good: Path, place: str) -> None:
    """Run as another user: root may read everything."""
    with tempfile.TemporaryDirectory() as name:
        commands(Path(shutil.copytree(good, Path(name) / "first")))  # import modules that the other user may not read
        folder = Path(shutil.copytree(good, Path(name) / "copy"))
        path = folder / "runs" / place if place == FILE else folder / place
        for one in (Path(name), folder):
            one.chmod(0o755)
        arguments = [["runs"], ["runs", "latest"], ["gate", "latest~1", "latest"], ["history"], ["report"]]
        arguments = [[*one, "--store", str(folder / "runs")] if one[0] != "report" else one for one in arguments]
        for one in arguments:
            one += ["--reports", str(folder / "reports")] if one[0] in ("history", "report") else []
        path.chmod(0)
        try:
            child = os.fork()
            if child == 0:
                try:
                    if os.geteuid() == 0:
                        os.setuid(65534)
                    signal.alarm(LIMIT)
                    with open(os.devnull, "w") as null:
                        os.dup2(null.fileno(), 1)
                        codes = {main(one) for one in arguments}
                    os._exit(0 if codes <= {0, 1, 2, 11, 12} and 12 in codes else 1)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finally:
            path.chmod(0o755)
