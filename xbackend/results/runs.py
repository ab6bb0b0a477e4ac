"""The store: a folder of runs, each a folder with the time of its start as its name, so that the newest is the last.

    store = Store(Path(".xbackend/runs"))
    run = store.create(plan)                 # <store>/20260131-120000/plan.json
    run.journal(1)                           # .../journal/1.jsonl, which the first process appends its rounds to
    run.record(measurement)                  # .../journal/0.jsonl: that process finished
    run.finish(results)                      # .../results.json, whole

A run without ``results.json`` is being measured or was cut off: it is made of its plan and its journal, and is not
complete. A damaged file is renamed to ``<name>.damaged`` and stays in its run, which cannot be loaded from then on: no
older run stands in for it.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, count
from pathlib import Path
from typing import Any

import msgspec

from xbackend.errors import DamagedStore, StoreError
from xbackend.files import held, hold, new_folder, refused, sync_folder, there
from xbackend.results import FOLDER, journal, recovery, schema
from xbackend.results.packing import SUFFIX
from xbackend.results.schema import Measurement, Results

PLAN, RESULTS, JOURNAL = "plan.json", "results.json", "journal"
REPORTED = f"results{SUFFIX}"  # beside a report
_SESSION = "0.jsonl"
_NAME = "%Y%m%d-%H%M%S"
_BACK = re.compile(r"~\d{1,9}$")
_LATEST = re.compile(r"latest(?:~(\d{1,9}))?")


@dataclass(frozen=True)
class RunInfo:
    """A run in a list. ``damaged`` says what is, and is empty where nothing is; then the rest is not known.

    ``measurements`` is how many gave a time, ``of`` how many were planned, ``rounds`` how many were measured;
    ``running`` is whether somebody measures it now; a run that is neither that nor ``complete`` was cut off.
    """

    name: str
    title: str = ""
    created: str = ""
    complete: bool = False
    running: bool = False
    damaged: str = ""
    measurements: int = 0
    of: int = 0
    rounds: int = 0


class Run:
    """A run while it is measured; `Store.create` makes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lock = hold(folder)
        self._release = weakref.finalize(self, os.close, lock) if lock is not None else None

    @property
    def name(self) -> str:
        """Its name in the store."""
        return self.folder.name

    def journal(self, number: int) -> Path:
        """The journal of a process, numbered from 1; nobody else writes into it."""
        return self.folder / JOURNAL / f"{number}.jsonl"

    def record(self, measurement: Measurement, *, label: str = "", half: str = "", pair: int = 0) -> None:
        """Keep what one process found out about one candidate; see `recovery.Record`. On disk when it returns.

        Raises `StoreError`.
        """
        record = recovery.Record(measurement=measurement, label=label, half=half, pair=pair)
        journal.append(self.folder / JOURNAL / _SESSION, msgspec.to_builtins(record))

    def finish(self, results: Results) -> Path:
        """Write the results, whole; their path. Raises `StoreError`."""
        path = self.folder / RESULTS
        schema.save(msgspec.structs.replace(results, run=self.name), path)
        return path

    def close(self) -> None:
        """Nobody measures it from now on: without results it was cut off. The end of the process does the same."""
        if self._release is not None:
            self._release()


class Store:
    """All runs in a folder, which is made with the first of them."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """The names of the runs, the oldest first; those that somebody renamed come before. Raises `StoreError`."""
        with refused(f"the store {self.folder} cannot be read"):
            try:
                # A file with the name of a run is what is left of one, and not to be passed over.
                with os.scandir(self.folder) as entries:
                    names = [e.name for e in entries if e.name[0] != "." and (_time(e.name) or os.path.isdir(e.path))]
            except FileNotFoundError:
                return []
        return sorted(names, key=lambda name: (_time(name) is not None, name))

    def runs(self) -> list[RunInfo]:
        """All runs, the newest last, with those that were cut off or are damaged. Changes nothing."""
        return [self._information(name) for name in self.names()]

    def readable(self) -> tuple[list[Results], list[tuple[str, str]]]:
        """The runs that can be read, the oldest first, and the names of the others with the reason. Changes nothing."""
        results: list[Results] = []
        damaged: list[tuple[str, str]] = []
        for name in self.names():
            try:
                results.append(_read(self.folder / name))
            except (StoreError, OSError) as error:
                damaged.append((name, str(error)))
        return sorted(results, key=lambda run: run.created), damaged

    def running(self, name: str) -> bool:
        """Whether somebody measures the run of this name (as for `load`) now. Raises `StoreError`."""
        folder = self._named(name)
        return folder is not None and held(folder)

    def load(self, name: str) -> Results:
        """The results of a run.

        ``name`` is a run's name or an unambiguous beginning of it, ``latest``, ``latest~1`` for the one before, what
        its results are called (of several the newest; ``before~1`` is the one before), or the path of a
        ``results.json`` or of a folder with one. A run that was cut off has ``complete=False`` and its finished
        processes only.

        Raises:
            StoreError: there is no such run, or it cannot be read.
            DamagedStore: a file of it is damaged; in the store it is set aside.
            StoreVersionError: a newer version of xbackend wrote it.
        """
        folder = self._named(name)
        if folder is None:
            return _from_path(Path(name))
        try:
            return _read(folder)
        except DamagedStore as error:
            moved = _set_aside(folder)
            raise DamagedStore(f"run {folder.name}: {error}{moved}") from error

    def create(self, plan: Results) -> Run:
        """A new run, in a folder of its own whoever else makes one now.

        ``plan`` is what is going to be measured; of its rows the processes, status and reason are left out.
        Raises `StoreError`.
        """
        with refused(f"no run can be made in {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            with new_folder(self.folder / "run") as made:
                (made / JOURNAL).mkdir()
                folder = self._named_anew(made, recovery.planned(plan))
        return Run(folder)

    def _named_anew(self, made: Path, plan: Results) -> Path:
        """Rename a folder to the first time from now on that is later than every run's and that nobody has."""
        taken = [time for time in map(_time, self.names()) if time is not None]
        at = max([datetime.now(UTC).replace(microsecond=0), *map(_after, taken[-1:])])
        while True:
            folder = self.folder / at.strftime(_NAME)
            schema.save(msgspec.structs.replace(plan, run=folder.name), made / PLAN)
            try:
                made.rename(folder)  # fails where another run is: its folder is not empty
            except OSError:
                if not folder.is_dir():
                    raise
                at = _after(at)
                continue
            sync_folder(self.folder)
            return folder

    def _named(self, name: str) -> Path | None:
        """The folder of a run in the store; `None` where the name is a path. Raises `StoreError`."""
        names = self.names()
        if latest := _LATEST.fullmatch(name):
            times = [n for n in names if _time(n) is not None]
            back = int(latest[1] or 0)
            if back >= len(times):
                raise StoreError(
                    f"there is no run {name} in {self.folder}, which has {len(times)}; xbackend compare makes one"
                )
            return self.folder / times[-1 - back]
        if name in names:
            return self.folder / name
        if titled := self._titled(name):
            return titled
        if os.path.exists(name):
            path = Path(name)
            inside = path.name in names and os.path.isdir(path) and path.samefile(self.folder / path.name)
            return self.folder / path.name if inside else None  # a run of the store by its path is that run
        meant = [n for n in names if name and n.startswith(name)]
        if len(meant) == 1:
            return self.folder / meant[0]
        if meant:
            raise StoreError(f"{name!r} is the beginning of {len(meant)} runs: {', '.join(meant)}; give more of it")
        there = f"the newest are {', '.join(names[-3:])}" if names else "it has none"
        raise StoreError(
            f"there is no run {name!r} in {self.folder} ({there}), and no such file; xbackend runs lists them"
        )

    def _titled(self, name: str) -> Path | None:
        """The run whose results are called that, the newest, or with ``~1`` the one before; `None` where there is none.

        Raises `StoreError` where a newer one is damaged, which may have been called so, or where there are fewer.
        """
        title, _, back = name.rpartition("~") if _BACK.search(name) else (name, "", "0")
        named, damaged = 0, ""
        for run in reversed(self.runs() if title else []):
            if run.damaged:
                damaged = damaged or run.name
            elif run.title == title:
                if damaged:
                    raise StoreError(
                        f"{name!r} may be the run {damaged}, which is damaged and newer than {run.name}; name the run "
                        "that you mean by its time: xbackend runs lists them"
                    )
                if named == int(back):
                    return self.folder / run.name
                named += 1
        if named:
            raise StoreError(f"there is no run {name} in {self.folder}, which has {named} of that name")
        return None

    def _information(self, name: str) -> RunInfo:
        folder = self.folder / name
        try:
            results = _read(folder)
            rounds = sum(len(p.rounds) for m in results.measurements for p in m.processes)
            if not results.complete:
                rounds = max(rounds, recovery.rounds(folder / JOURNAL))
        except (StoreError, OSError) as error:
            return RunInfo(name, damaged=str(error))
        return RunInfo(
            name,
            title=results.name,
            created=results.created,
            complete=results.complete,
            running=not results.complete and held(folder),
            measurements=sum(m.status == "ok" for m in results.measurements),
            of=len(results.measurements),
            rounds=rounds,
        )


@lru_cache(maxsize=4096)  # each name of a store is asked for several times
def _time(name: str) -> datetime | None:
    """The time that a run's name says; `None` for another name."""
    try:
        time = datetime.strptime(name, _NAME)
    except ValueError:
        return None
    # strptime is lenient about leading zeros, and two spellings of one time would not sort.
    return time.replace(tzinfo=UTC) if time.strftime(_NAME) == name else None


def _after(time: datetime) -> datetime:
    """The next second. Raises `StoreError`."""
    try:
        return time + timedelta(seconds=1)
    except OverflowError:
        raise StoreError(
            f"no run can be made after {time.strftime(_NAME)}, the last time that there is: remove it or rename it"
        ) from None


def _from_path(path: Path) -> Results:
    """Results from outside of the store, where nothing is renamed."""
    if not os.path.isdir(path):
        return schema.load(path)
    with refused(f"results cannot be read from {path}"):
        of_a_run = there(path / PLAN)
    return _read(path) if of_a_run else schema.load(path / REPORTED)


def _read(folder: Path) -> Results:
    """The results of a run, from its journal if it was cut off. Raises as `Store.load` does, and renames nothing."""
    with refused(f"the run {folder} cannot be read"):
        aside = [name for name in _names(folder) if ".damaged" in name]
        if aside:
            raise DamagedStore(
                f"{', '.join(aside)} in {folder} was found damaged; put the file as it was in its place, or remove the "
                "folder and measure again"
            )
        read = {path.name: reader(path) for path, reader in _parts(folder).items()}
    if RESULTS not in read and PLAN not in read:
        raise DamagedStore(f"{folder} holds neither {RESULTS} nor {PLAN}; remove it or measure again")
    results: Results = read.get(RESULTS) or recovery.recovered(read[PLAN], read.get(_SESSION, []))
    return results


def _parts(folder: Path) -> dict[Path, Callable[[Path], Any]]:
    """The files that a run is read from, each with its reader. Raises `OSError`."""
    if there(folder / RESULTS):
        return {folder / RESULTS: _own}
    parts: dict[Path, Callable[[Path], Any]] = {folder / PLAN: _own} if there(folder / PLAN) else {}
    if there(folder / JOURNAL) and not os.path.isdir(folder / JOURNAL):
        return {folder / JOURNAL: _no_journal, **parts}
    session = folder / JOURNAL / _SESSION
    if there(session):
        parts[session] = recovery.records
    # A damaged journal of a process is damage, wherever its run was cut off.
    return parts | dict.fromkeys(recovery.processes(folder / JOURNAL), journal.read)


def _names(folder: Path) -> list[str]:
    """The names of a run's files, sorted; those of the journal with its folder's. Raises `OSError`."""
    try:
        top = os.listdir(folder)
        below = os.listdir(folder / JOURNAL) if JOURNAL in top and os.path.isdir(folder / JOURNAL) else []
    except NotADirectoryError:  # a file in the place of the folder
        return []
    return sorted([*top, *(f"{JOURNAL}/{name}" for name in below)])


def _own(path: Path) -> Results:
    """The results in a file of a run, which are those of that run unless somebody renamed it."""
    results = schema.load(path)
    if _time(path.parent.name) and results.run != path.parent.name:
        raise DamagedStore(f"{path} is damaged: it is of the run {results.run!r}; restore it or measure again")
    return results


def _no_journal(path: Path) -> None:
    raise DamagedStore(f"{path} is damaged: it is no folder; restore it or measure again")


def _set_aside(folder: Path) -> str:
    """Rename the damaged files of a run; what was done, in words."""
    moved = []
    with suppress(OSError):  # it is damaged all the same, and named
        for path in _damaged(folder):
            names = chain([f"{path.name}.damaged"], (f"{path.name}.damaged-{number}" for number in count(2)))
            aside = next(free for name in names if not there(free := path.with_name(name)))
            path.rename(aside)
            moved.append(aside.relative_to(folder).as_posix())
    return f"; set aside as {', '.join(moved)}" if moved else ""


def _damaged(folder: Path) -> Iterator[Path]:
    """The files that a run was to be read from and cannot. Raises `OSError`."""
    for path, reader in _parts(folder).items():
        try:
            reader(path)
        except DamagedStore:
            yield path
        except StoreError:
            pass  # newer, or it cannot be read, which says nothing about what it holds
