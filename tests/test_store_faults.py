"""The store's files under refusals of the system: the n-th open, write, fsync or rename fails, for every n, once or
for good, or the process is killed there. Acknowledged content is kept, all content can be read, and nothing is a
mixture."""

from __future__ import annotations

import _sqlite3
import contextlib
import ctypes
import errno
import itertools
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiers
from store_helpers import begin, cut_off, damages, process, results, row, snapshot

from xbackend import report
from xbackend.errors import StoreError
from xbackend.results.runs import RunRecorder, Store
from xbackend.results.schema import Results, Visit

pytestmark = pytest.mark.tier("standard")

CALLS = ("open", "write", "fsync", "rename", "replace", "mkdir", "listdir", "lstat")
OF_SQLITE = ("open", "pread64", "pwrite64", "ftruncate", "unlink", "openDirectory", "stat")
HOW = ("error", "short", "killed")


class Fault:
    """The n-th call of a function of `os` fails. With "short", a write fails after half of it, and so does the next."""

    def __init__(self, call: str, number: int, how: str) -> None:
        self.call, self.number, self.how, self.count = call, number, how, 0

    @property
    def happened(self) -> bool:
        return self.count >= self.number

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.count += 1
        if self.count == self.number and self.how == "killed":
            os._exit(9)
        if self.count == self.number and self.how == "short":
            return self._half(*arguments)
        if self.count == self.number or (self.how == "short" and self.count == self.number + 1):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.real(*arguments, **named)

    def _half(self, descriptor: int, data: Any) -> int:
        return int(self.real(descriptor, data[: len(data) // 2]))

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        self.real = getattr(os, self.call)
        setattr(os, self.call, self)
        try:
            yield
        finally:
            setattr(os, self.call, self.real)


class OfSQLite(Fault):
    """The same for SQLite's calls of the system (``xSetSystemCall`` of https://sqlite.org/c3ref/vfs.html)."""

    def __call__(self, *arguments: Any) -> int:
        try:
            return int(super().__call__(*arguments))
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
            return -1

    def _half(self, descriptor: int, data: int, size: int, at: int) -> int:
        return int(self.real(descriptor, data, size // 2, at))

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        name, prototype = self.call.encode(), PROTOTYPES[self.call]
        self.real = prototype(VFS.xGetSystemCall(ctypes.byref(VFS), name))
        ours = prototype(self)
        assert VFS.xSetSystemCall(ctypes.byref(VFS), name, ctypes.cast(ours, ctypes.c_void_p)) == 0
        try:
            yield
        finally:
            VFS.xSetSystemCall(ctypes.byref(VFS), name, None)


class _VFS(ctypes.Structure):
    """sqlite3_vfs: two numbers, a size, and pointers."""

    _fields_ = (
        *(("iVersion", ctypes.c_int), ("szOsFile", ctypes.c_int), ("mxPathname", ctypes.c_int)),
        *((f"p{number}", ctypes.c_void_p) for number in range(16)),
        ("xSetSystemCall", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
        ("xGetSystemCall", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)),
    )


def _vfs() -> _VFS:
    """The part of Python's SQLite that calls the system."""
    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_VFS)
    return library.sqlite3_vfs_find(None).contents  # type: ignore[no-any-return]


VFS = _vfs()
_TRANSFER = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
PROTOTYPES: dict[str, Callable[..., Any]] = {
    name: ctypes.CFUNCTYPE(result, *arguments, use_errno=True)
    for name, result, *arguments in (
        ("open", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
        ("pread64", ctypes.c_ssize_t, *_TRANSFER),
        ("pwrite64", ctypes.c_ssize_t, *_TRANSFER),
        ("ftruncate", ctypes.c_int, ctypes.c_int, ctypes.c_int64),
        ("unlink", ctypes.c_int, ctypes.c_char_p),
        ("openDirectory", ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p),
        ("stat", ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p),
    )
}


def every_fault(call: str, how: str, act: Callable[[int, Fault], None], kind: type[Fault] = Fault) -> int:
    """Call ``act`` with the fault at the first call, the second and so on, until none is left. Returns their number."""
    # Each is a separate session: below the exhaustive tier only every fifth of SQLite's many calls fails.
    stride = 1 if kind is Fault or tiers.chosen == tiers.TIERS[-1] else 5
    for number in itertools.count(1, stride):
        fault = kind(call, number, how)
        act(number, fault)
        if not fault.happened:
            return number - 1
    raise AssertionError


def in_child(act: Callable[[Callable[[str], None]], None]) -> tuple[list[str], bool]:
    """The words of a forked process before its end, and whether it was killed."""
    reader, writer = os.pipe()
    write = os.write
    child = os.fork()
    if child == 0:
        try:
            act(lambda word: write(writer, f"{word}\n".encode()) and None)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as file:
        told = file.read().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return told, status == 9


MEASURED = results(row(processes=[process(0.01, 0), process(0.02, 1)]), row("other"))


def session(folder: Path, tell: Callable[[str], None]) -> None:
    """A whole run that goes on after each error. It tells what was acknowledged."""

    def attempt(word: str, action: Callable[[], object]) -> None:
        with contextlib.suppress(StoreError):
            action()
            tell(word)

    run: list[RunRecorder] = []
    attempt("created", lambda: run.append(Store(folder).create(MEASURED)))
    if not run:
        return
    for number in range(3):
        one = row(medians=[], processes=[process(0.01, number)])
        attempt(f"process {number}", lambda one=one: run[0].record(one, label="numpy"))
        attempt(f"round {number}", lambda number=number: run[0].visited(number, Visit([0.5 + number])))
    attempt("finished", lambda: run[0].finish(MEASURED))
    run[0].close()


def check_session(folder: Path, told: list[str]) -> None:
    store = Store(folder)
    damaged = damages(store)
    assert damaged == [""] or ("created" not in told and not damaged)
    if not damaged:
        return
    found = store.load("latest")
    assert found.complete or "finished" not in told
    if found.complete:
        assert [len(m.processes) for m in found.measurements] == [2, 5]
        return
    processes = {p.order: p.rounds for p in found.measurements[0].processes}
    rounds = {order: [s for s in seconds if s >= 0.5] for order, seconds in processes.items()}
    assert {p for p in range(3) if f"process {p}" in told} <= processes.keys()
    for order in range(3):
        assert rounds.get(order, []) in ([], [0.5 + order]), "nothing is there twice"
        assert rounds.get(order) or f"round {order}" not in told


@pytest.mark.parametrize(
    ("kind", "call", "how"),
    [
        (kind, call, how)
        for kind, calls in ((Fault, CALLS), (OfSQLite, OF_SQLITE))
        for call in calls
        for how in HOW
        if how != "short" or "write" in call
    ],
)
def test_a_run_through_every_fault(tmp_path: Path, kind: type[Fault], call: str, how: str) -> None:
    def act(number: int, fault: Fault) -> None:
        folder = tmp_path / str(number)
        if how == "killed":

            def child(tell: Callable[[str], None]) -> None:
                with fault.planted():
                    session(folder, tell)

            told, killed = in_child(child)
            fault.count = number if killed else 0
        else:
            told = []
            with fault.planted():
                session(folder, told.append)
        check_session(folder, told)

    seldom = ("ftruncate", "rename", "mkdir", "listdir")
    assert every_fault(call, how, act, kind) >= (0 if call in seldom else 1)


@pytest.mark.parametrize("most", range(4096, 70_000, 8192))
def test_a_disk_that_takes_no_more_keeps_what_was_acknowledged(tmp_path: Path, most: int) -> None:
    def child(tell: Callable[[str], None]) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        session(tmp_path, tell)

    told, _ = in_child(child)
    check_session(tmp_path, told)
    assert ("finished" in told) == (most > 40_000), told


def test_reading_through_every_fault_is_an_error_or_right(tmp_path: Path) -> None:
    session(tmp_path / "finished", lambda word: None)
    cut_off(Store(tmp_path / "cut off"))
    calls = [*((Fault, call) for call in ("listdir", "lstat", "stat")), *((OfSQLite, call) for call in OF_SQLITE)]
    for folder, (kind, call) in itertools.product((tmp_path / "finished", tmp_path / "cut off"), calls):
        whole, before = Store(folder).load("latest"), snapshot(folder)

        def act(number: int, fault: Fault, folder: Path = folder, whole: object = whole) -> None:
            with fault.planted():
                with contextlib.suppress(StoreError):
                    assert Store(folder).load("latest") == whole
                with contextlib.suppress(StoreError):
                    damages(Store(folder))

        every_fault(call, "error", act, kind)
        assert snapshot(folder) == before, "nothing is set aside that is not damaged"


def test_what_a_killed_writer_had_begun_is_rolled_back_by_who_reads(tmp_path: Path) -> None:
    """Its journal lies beside the file. A read-only reader could not roll it back."""
    store = Store(tmp_path)
    run = begin(store)
    whole = store.path.read_bytes()

    def child(tell: Callable[[str], None]) -> None:
        with OfSQLite("unlink", 1, "killed").planted():
            run.record(row(), label="numpy")

    assert in_child(child) == ([], True)
    assert sorted(snapshot(tmp_path)) == ["runs.sqlite", "runs.sqlite-journal"] and store.path.read_bytes() != whole
    assert store.load("latest").order == [] and snapshot(tmp_path) == {"runs.sqlite": whole}


# --- reports ---------------------------------------------------------------------------------------------------------


def test_a_report_through_every_fault_is_one_of_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second writing gives the new report, whatever was left."""

    def rendered(found: Results, baseline: str | None) -> dict[str, bytes]:
        name = found.name
        text = f"{name} ({name}.svg)".encode()
        return {"report.md": text, f"{name}.svg": b"plot", "report.html": text}

    monkeypatch.setattr(report, "render", rendered)
    report.write(results(name="old"), tmp_path / "old")
    report.write(results(name="new"), tmp_path / "new")
    old, new = snapshot(tmp_path / "old"), snapshot(tmp_path / "new")
    for call, how in itertools.product(("open", "write", "fsync", "replace", "mkdir"), ("error", "killed")):

        def act(number: int, fault: Fault, call: str = call, how: str = how) -> None:
            folder = tmp_path / f"{call} {how} {number}"
            report.write(results(name="old"), folder)
            (folder / "mine.svg").write_bytes(b"mine")

            def write(tell: Callable[[str], None]) -> None:
                with fault.planted(), contextlib.suppress(StoreError):
                    report.write(results(name="new"), folder)
                    tell("written")

            told: list[str] = []
            if how == "killed":
                told, killed = in_child(write)
                fault.count = number if killed else 0
            else:
                write(told.append)
            found = {name: data for name, data in snapshot(folder).items() if not name.startswith(".")}
            assert found.pop("mine.svg") == b"mine"
            assert all(data in (old.get(name), new.get(name)) for name, data in found.items())
            assert not told or new.items() <= found.items()
            assert found["report.md"].split()[1][1:-1].decode() in found, "a document that is there has its plots"
            report.write(results(name="new"), folder)
            assert {k: v for k, v in snapshot(folder).items() if k in new} == new

        every_fault(call, how, act)


def test_a_folder_that_somebody_gave_the_name_of_a_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "report.md").mkdir(parents=True)
    (tmp_path / "report.md" / "mine").write_bytes(b"mine")
    with pytest.raises(StoreError, match=r"report\.md"):
        report.write(results(), tmp_path)
    assert (tmp_path / "report.md" / "mine").read_bytes() == b"mine"


def test_a_report_that_cannot_be_made_leaves_the_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "render", lambda found, baseline: {"report.md": b"(p-1.svg)", "p-1.svg": b"1"})
    (tmp_path / "mine.svg").write_bytes(b"mine")
    report.write(results(name="old"), tmp_path)
    before = snapshot(tmp_path)

    def fails(found: object, baseline: object) -> dict[str, bytes]:
        raise ZeroDivisionError

    monkeypatch.setattr(report, "render", fails)
    with pytest.raises(ZeroDivisionError):
        report.write(results(name="new"), tmp_path)
    assert snapshot(tmp_path) == before
    monkeypatch.setattr(report, "render", lambda found, baseline: {"report.md": b"(p-2.svg)", "p-2.svg": b"2"})
    report.write(results(name="new"), tmp_path)
    assert sorted(snapshot(tmp_path)) == ["mine.svg", "p-2.svg", "report.md", "results.json.gz"]
