"""The files of the store when the system refuses: the n-th open, write, fsync, rename, for every n, once and for good,
or the process is killed there. What was acknowledged is there, what is there can be read, and nothing is a mixture.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from store_helpers import process, results, row, snapshot

from xbackend import report
from xbackend.errors import StoreError
from xbackend.files import held, hold
from xbackend.results import exchange, journal
from xbackend.results.exchange import write_folder
from xbackend.results.runs import Run, Store

CALLS = ("open", "write", "fsync", "rename", "replace", "mkdir", "ftruncate", "listdir", "stat", "lstat")
HOW = ("error", "short", "killed")


class Fault:
    """The n-th call of a function of `os` fails; with "short", of a write, after half of it, and the next one too."""

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
            descriptor, data = arguments
            return self.real(descriptor, data[: len(data) // 2])
        if self.count == self.number or (self.how == "short" and self.count == self.number + 1):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.real(*arguments, **named)

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        self.real = getattr(os, self.call)
        setattr(os, self.call, self)
        try:
            yield
        finally:
            setattr(os, self.call, self.real)


def every_fault(call: str, how: str, act: Callable[[int, Fault], None]) -> int:
    """Act with the fault at the first call, the second and so on, until there are no more; how many there were."""
    for number in itertools.count(1):
        fault = Fault(call, number, how)
        act(number, fault)
        if not fault.happened:
            return number - 1
    raise AssertionError


def in_child(act: Callable[[Callable[[str], None]], None]) -> tuple[list[str], bool]:
    """What a forked process told before it ended, and whether it was killed."""
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
    """A run from its beginning to its end, going on after each error; what was acknowledged is told."""

    def attempt(word: str, action: Callable[[], object]) -> None:
        with contextlib.suppress(StoreError):
            action()
            tell(word)

    run: list[Run] = []
    attempt("created", lambda: run.append(Store(folder).create(MEASURED)))
    if not run:
        return
    for number in range(3):
        line = {"task": "a", "round": number, "seconds": 0.5}
        attempt(f"round {number}", lambda line=line: journal.append(run[0].journal(1), line))
        one = row(medians=[], processes=[process(0.01, number)])
        attempt(f"process {number}", lambda one=one: run[0].record(one, label="numpy"))
    attempt("finished", lambda: run[0].finish(MEASURED))
    run[0].close()


def check_session(folder: Path, told: list[str]) -> None:
    store = Store(folder)
    infos = store.runs()
    assert [info.damaged for info in infos] == [""] * len(infos)
    assert len(infos) == 1 or ("created" not in told and not infos)
    if not infos:
        return
    found, path = store.load("latest"), folder / infos[0].name
    assert found.complete or "finished" not in told
    lines = {"round": path / "journal" / "1.jsonl", "process": path / "journal" / "0.jsonl"}
    there = {word: journal.read(file) if file.exists() else [] for word, file in lines.items()}
    orders = [line["measurement"]["processes"][0]["order"] for line in there["process"]]
    for word, numbers in (("round", [line["round"] for line in there["round"]]), ("process", orders)):
        acknowledged = [int(one.split()[1]) for one in told if one.startswith(word)]
        assert numbers == sorted(set(numbers)) and set(acknowledged) <= set(numbers), (word, numbers, acknowledged)
    if not found.complete:
        assert [p.order for p in found.measurements[0].processes] == orders
    else:
        assert [len(m.processes) for m in found.measurements] == [2, 5]


@pytest.mark.parametrize(
    ("call", "how"), [(call, how) for call in CALLS for how in HOW if how != "short" or call == "write"]
)
def test_a_run_through_every_fault(tmp_path: Path, call: str, how: str) -> None:
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

    assert every_fault(call, how, act) >= (1 if call in ("write", "fsync", "open", "rename", "replace") else 0)


def test_reading_through_every_fault_is_an_error_or_right(tmp_path: Path) -> None:
    session(tmp_path / "finished", lambda word: None)
    cut = tmp_path / "cut off"
    session(cut, lambda word: None)
    next(cut.glob("*/results.json")).unlink()
    for folder, call in itertools.product(
        (tmp_path / "finished", cut), ("open", "listdir", "stat", "lstat", "scandir")
    ):
        whole, before = Store(folder).load("latest"), snapshot(folder)

        def act(number: int, fault: Fault, folder: Path = folder, whole: object = whole) -> None:
            with fault.planted():
                with contextlib.suppress(StoreError):
                    assert Store(folder).load("latest") == whole
                with contextlib.suppress(StoreError):
                    Store(folder).runs()

        every_fault(call, "error", act)
        assert snapshot(folder) == before, "nothing is set aside that is not damaged"


def test_a_line_cut_short_is_no_more_when_the_next_one_comes(tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    journal.append(path, {"round": 0})
    whole = path.read_bytes()
    for torn in (whole[:-1], whole[:5], b"x" * 200_000):
        path.write_bytes(whole + torn)
        journal.append(path, {"round": 1})
        assert [line["round"] for line in journal.read(path)] == [0, 1]
    path.write_bytes(b"torn")
    journal.append(path, {"round": 2})
    assert journal.read(path) == [{"round": 2}]


# --- reports ---------------------------------------------------------------------------------------------------------

OLD = {"results.json": b"old", "report.md": b"old (a.svg)", "a.svg": b"old"}
NEW = {"results.json": b"new" * 100_000, "report.md": b"new (b.svg)", "b.svg": b"new"}
NOTES = {"notes.txt": b"mine", "sub/more.txt": b"mine"}


def ours(folder: Path, name: str) -> bool:
    return name in OLD


def old_folder(folder: Path) -> None:
    for name, data in {**OLD, **NOTES}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("steps", ["one", "two"])
@pytest.mark.parametrize("how", HOW)
def test_a_folder_is_exchanged_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, steps: str
) -> None:
    if steps == "two":  # a system that cannot exchange names
        monkeypatch.setattr(exchange, "_swap", lambda one, other: False)
    for call in CALLS if how != "short" else ["write"]:

        def act(number: int, fault: Fault, call: str = call) -> None:
            folder = tmp_path / call / str(number) / "report"
            old_folder(folder)
            told: list[str] = []

            def write(tell: Callable[[str], None]) -> None:
                with fault.planted(), contextlib.suppress(StoreError):
                    write_folder(folder, NEW, ours)
                    tell("written")

            if how == "killed":
                told, killed = in_child(write)
                fault.count = number if killed else 0
            else:
                write(told.append)
            if how == "killed" and steps == "two" and not folder.exists():
                write_folder(folder, NEW, ours)  # killed between its two renames: the next one restores what was there
            found = snapshot(folder)
            assert found in ({**OLD, **NOTES}, {**NEW, **NOTES}), f"{call} {number}"
            assert not told or found == {**NEW, **NOTES}

        every_fault(call, how, act)


@pytest.mark.parametrize("steps", ["one", "two"])
def test_of_writers_at_once_one_wins_whole(steps: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what somebody else put there stays."""
    if steps == "two":
        monkeypatch.setattr(exchange, "_swap", lambda *_: False)
    folder, versions = tmp_path / "report", [{"results.json": b"%d" % i, "report.md": b"%d" % i} for i in range(4)]
    write_folder(folder, versions[0], lambda *_: False)
    for name, data in NOTES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    seen: list[tuple[bytes, ...]] = []
    with ThreadPoolExecutor(len(versions)) as pool:
        writers = [
            pool.submit(lambda v=v: [write_folder(folder, v, lambda *_: False) for _ in range(50)]) for v in versions
        ]
        while not all(writer.done() for writer in writers):
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(folder, os.O_RDONLY)  # one folder, whatever has its name meanwhile
                with contextlib.suppress(FileNotFoundError):  # it was deleted since
                    names = ("results.json", "report.md")
                    files = [os.open(name, os.O_RDONLY, dir_fd=descriptor) for name in names]
                    seen.append(tuple(os.read(file, 9) for file in files))
                    for file in files:
                        os.close(file)
                os.close(descriptor)
    for writer in writers:
        writer.result()
    assert seen and all(one == other for one, other in seen)
    assert snapshot(folder) in ([{**version, **NOTES} for version in versions])
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_folder_that_is_between_two_renames_is_locked_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is brought along is brought under the lock."""
    folder, away = tmp_path / "report", tmp_path / "away"
    write_folder(folder, OLD, ours)
    held_then: list[bool] = []
    bring = exchange._bring

    def between(target: Path, wait: bool) -> int | None:
        monkeypatch.setattr(exchange, "hold", hold)
        target.rename(away)
        try:
            return hold(target, wait=wait)
        finally:
            away.rename(target)

    def brought(source: Path, made: Path, left: list[str]) -> None:
        held_then.append(held(source))
        bring(source, made, left)

    monkeypatch.setattr(exchange, "hold", between)
    monkeypatch.setattr(exchange, "_bring", brought)
    write_folder(folder, NEW, ours)
    assert held_then == [True]
    assert snapshot(folder) == NEW


def test_a_writer_that_was_stopped_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_PATIENCE", 0.1)
    folder = tmp_path / "report"
    write_folder(folder, OLD, ours)
    stopped = hold(folder)
    assert stopped is not None
    with pytest.raises(StoreError, match=r"report cannot be written: another process writes it, for 0\.1 s now"):
        write_folder(folder, NEW, ours)
    os.close(stopped)
    write_folder(folder, NEW, ours)
    assert snapshot(folder) == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_what_a_living_writer_put_aside_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is between its two renames; when it was killed there, what it put aside is brought along."""
    monkeypatch.setattr(exchange, "_PATIENCE", 0.1)
    folder, aside = tmp_path / "report", tmp_path / ".report.new-1-old"
    old_folder(aside)
    living = hold(aside)
    assert living is not None
    with pytest.raises(StoreError, match="another process writes it"):
        write_folder(folder, NEW, ours)
    assert not folder.exists() and snapshot(aside) == {**OLD, **NOTES}
    os.close(living)
    write_folder(folder, NEW, ours)
    assert snapshot(folder) == {**NEW, **NOTES} and not aside.exists()


def test_a_folder_that_is_replaced_before_it_is_locked_is_locked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, other = tmp_path / "report", tmp_path / "other"
    write_folder(folder, OLD, ours)
    old_folder(other)
    held_then: list[bool] = []
    bring = exchange._bring

    def late(target: Path, wait: bool) -> int | None:
        monkeypatch.setattr(exchange, "hold", hold)
        lock = hold(target, wait=wait)
        target.rename(tmp_path / "away")
        other.rename(target)
        return lock

    def brought(source: Path, made: Path, left: list[str]) -> None:
        held_then.append(held(source))
        bring(source, made, left)

    monkeypatch.setattr(exchange, "hold", late)
    monkeypatch.setattr(exchange, "_bring", brought)
    write_folder(folder, NEW, ours)
    assert held_then == [True] and snapshot(folder) == {**NEW, **NOTES}


def test_a_folder_that_comes_while_another_is_made_is_brought_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, sync = tmp_path / "report", exchange.sync_folder

    def comes(path: Path) -> None:
        monkeypatch.setattr(exchange, "sync_folder", sync)
        old_folder(folder)

    monkeypatch.setattr(exchange, "sync_folder", comes)
    write_folder(folder, NEW, ours)
    assert snapshot(folder) == {**NEW, **NOTES}
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_without_hard_links_files_are_copied_and_symbolic_links_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    folder = tmp_path / "report"
    old_folder(folder)
    links = {"link": "notes.txt", "to a folder": "sub", "to nothing": "gone"}
    for name, there in links.items():
        (folder / name).symlink_to(there)
    for link in (os.link, refused):
        monkeypatch.setattr(os, "link", link)
        write_folder(folder, NEW, ours)
        assert {name: str((folder / name).readlink()) for name in links} == links
        assert snapshot(folder / "sub") == {"more.txt": b"mine"} and (folder / "notes.txt").read_bytes() == b"mine"


def test_a_folder_that_cannot_get_the_name_leaves_it_to_the_one_that_had_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a system that cannot exchange names, the second of two renames is refused each time."""
    folder, rename, refusals = tmp_path / "report", Path.rename, list[str]()
    old_folder(folder)

    def refused(self: Path, target: Path) -> Path:
        if target.name == "report" and not self.name.endswith("-old"):
            refusals.append(self.name)
            assert len(refusals) < 5, "it is tried again and again"
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return rename(self, target)

    monkeypatch.setattr(exchange, "_swap", lambda *_: False)
    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(StoreError):
        write_folder(folder, NEW, ours)
    assert snapshot(folder) == {**OLD, **NOTES}
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize(("number", "there"), [(errno.EINVAL, NEW), (errno.ENOSYS, NEW), (errno.EACCES, OLD)])
def test_a_system_that_cannot_exchange_names_renames_twice_and_one_that_refuses_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, there: dict[str, bytes]
) -> None:
    refuses = SimpleNamespace(renameat2=lambda *_: -1, renamex_np=lambda *_: -1)
    monkeypatch.setattr(exchange.ctypes, "CDLL", lambda *_, **__: refuses)
    monkeypatch.setattr(exchange.ctypes, "get_errno", lambda: number)
    folder = tmp_path / "report"
    old_folder(folder)
    with contextlib.nullcontext() if there is NEW else pytest.raises(StoreError):
        write_folder(folder, NEW, ours)
    assert snapshot(folder) == {**there, **NOTES}


def test_a_folder_that_somebody_gave_the_name_of_a_file_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    (folder / "report.md").mkdir(parents=True)
    (folder / "report.md" / "mine").write_bytes(b"mine")
    with pytest.raises(StoreError, match=r"report\.md is a folder"):
        write_folder(folder, NEW, ours)
    assert snapshot(folder) == {"report.md/mine": b"mine"}


def test_what_killed_writers_left_is_swept(tmp_path: Path) -> None:
    for name, age in ((".report.new-0", 3600), (".report.new-1", 0), (".other.new-2", 3600)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    write_folder(tmp_path / "report", NEW, ours)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.new-2", ".report.new-1", "report"]


def test_a_symbolic_link_to_a_folder_stays_one(tmp_path: Path) -> None:
    old_folder(tmp_path / "there")
    (tmp_path / "link").symlink_to("there")
    write_folder(tmp_path / "link", NEW, ours)
    assert (tmp_path / "link").is_symlink() and snapshot(tmp_path / "there") == {**NEW, **NOTES}


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
