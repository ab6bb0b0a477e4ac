"""The store: a folder with a file of runs, each named by the time of its start, so that the newest is the last.

`Store.create` begins a run, `RunRecorder.record` and `RunRecorder.visited` keep its processes and their visits, and
`RunRecorder.finish` replaces all of these by the results. When a call returns, its data is on disk. An unfinished run
is being measured or was cut off: it is its plan with the recorded processes, and not complete. A row that differs from
the written one is damage: its run cannot be read, and no older one stands in for it.
"""

from __future__ import annotations

import os
import re
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from xbackend.errors import DamagedStore, StoreError
from xbackend.files import held, hold, refused
from xbackend.results import FOLDER, database, schema
from xbackend.results.packing import SUFFIX
from xbackend.results.schema import UNPROVEN, Count, Measurement, Process, Results, Visit
from xbackend.wording import grouped

FILE, REPORTED = "runs.sqlite", f"results{SUFFIX}"  # the latter beside a report
NOT_COME_TO = "not measured: the run did not come to it"
_RUNNING = ".running"  # an empty folder for each run that is measured now, locked by its process
_NAME = "%Y%m%d-%H%M%S"
_BACK = re.compile(r"~\d{1,9}$")


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    place: Count  # of a candidate its number in the plan, of a process its ``order``


class _Candidate(_Record, frozen=True, kw_only=True):
    measurement: Measurement  # without its processes


class _Process(_Record, frozen=True, kw_only=True):
    candidate: Count  # its place
    label: str
    process: dict[str, Any]  # without its visits


class _Visit(_Record, frozen=True, kw_only=True):
    number: Count  # among the visits of its process
    visit: Visit


_Row = TypeVar("_Row", bound=_Record)
_TABLES: dict[type[_Record], str] = {_Candidate: "candidates", _Process: "processes", _Visit: "visits"}


class RunRecorder:
    """A run while it is measured; `Store.create` makes it. Each method raises `StoreError` where nothing was kept."""

    def __init__(self, path: Path, name: str, plan: Results) -> None:
        self.path, self.name = path, name
        self._places = {schema.key(row): place for place, row in enumerate(plan.measurements)}
        marker = path.with_name(name + _RUNNING)
        marker.mkdir()
        self._release = weakref.finalize(self, _ended, marker, hold(marker))

    def record(self, measurement: Measurement, label: str = "") -> None:
        """Keep a candidate and its processes, in the place of earlier data; ``label`` names it in the order of
        processes."""
        known = schema.plain(measurement, f"a measurement cannot be kept in {self.path}")
        place, processes = self._places[schema.key(measurement)], known.pop("processes")
        with self._writing() as rows:
            _put(rows, "candidates", {"run": self.name, "place": place, "measurement": known})
            for process in processes:
                at = {"run": self.name, "place": process["order"]}
                visits = process.pop("visits")
                _put(rows, "processes", {**at, "candidate": place, "label": label, "process": process})
                rows.execute("DELETE FROM visits WHERE run = ? AND place = ?", (*at.values(),))
                for number, visit in enumerate(visits):
                    _put(rows, "visits", {**at, "number": number, "visit": visit})

    def visited(self, order: int, visit: Visit) -> None:
        """Keep another visit of the process of that ``order``, which is recorded."""
        with self._writing() as rows:
            newest = "SELECT max(number) FROM visits WHERE run = ? AND place = ?"
            (last,) = rows.execute(newest, (self.name, order)).fetchone()
            if last is None:
                raise StoreError(f"the run {self.name} in {self.path} has no process {order} that was visited")
            one = _Visit(run=self.name, place=order, number=last + 1, visit=visit)
            _put(rows, "visits", schema.plain(one, f"a visit cannot be kept in {self.path}"))

    def finish(self, results: Results) -> None:
        """Replace the plan and the records by the results."""
        data = _whole(msgspec.structs.replace(results, run=self.name), self.path)
        with self._writing() as rows:
            rows.execute("UPDATE runs SET content = ? WHERE run = ?", (data, self.name))
            for table in _TABLES.values():
                rows.execute(f"DELETE FROM {table} WHERE run = ?", (self.name,))

    def close(self) -> None:
        """Nobody measures it from now on: without results it was cut off. The end of the process does the same."""
        self._release()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with database.writing(self.path) as rows:
            if rows.execute("SELECT 1 FROM runs WHERE run = ?", (self.name,)).fetchone() is None:
                raise StoreError(f"the run {self.name} is not in {self.path} any more: somebody put another file there")
            yield rows


def _ended(marker: Path, lock: int | None) -> None:
    if lock is not None:
        os.close(lock)
    with suppress(OSError):
        marker.rmdir()


class Store:
    """All runs in a folder, which is made with the first of them."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self.path = folder / FILE

    def names(self) -> list[str]:
        """The names of the runs, the oldest first. Raises `StoreError`."""
        with database.reading(self.path) as rows:
            return _names(rows)

    def readable(self) -> tuple[list[Results], list[tuple[str, str]]]:
        """The runs that can be read, the oldest first, and the names of the others with the reason. Changes nothing.

        A measurement is in the run of its session only, and not in those that reused it.
        """
        each = list(self.runs())
        results = [_own(run) for _, run in each if isinstance(run, Results)]
        damaged = [(name, str(run)) for name, run in each if isinstance(run, StoreError)]
        return sorted(results, key=lambda run: run.created), damaged

    def runs(self) -> Iterator[tuple[str, Results | StoreError]]:
        """All runs by name, the oldest first, also incomplete ones, or why one cannot be read; before them the damaged
        files. Changes nothing."""
        for name in database.damaged(self.path):
            yield name, DamagedStore(_found_damaged(self.folder, [name]))
        try:
            with database.reading(self.path) as rows:
                for name in _names(rows):
                    yield name, _read(rows, name, self.path)
        except StoreError as error:
            yield FILE, error

    def held(self, run: str) -> bool:
        """Whether somebody measures the run of exactly this name now."""
        return held(self.folder / (run + _RUNNING))

    def running(self, name: str) -> bool:
        """Whether somebody measures the run of this name (as for `load`) now. Raises `StoreError`."""
        with database.reading(self.path, aside=True) as rows:
            run = self._meant(rows, name)
        return run is not None and self.held(run)

    def load(self, name: str) -> Results:
        """The results of a run.

        ``name`` is a run's name or an unambiguous beginning of it, ``latest``, ``latest~1`` for its predecessor, the
        name of its results (the newest of several; ``before~1`` is the predecessor of ``before``), or the path of a
        ``results.json.gz`` or of a folder with one. A run that was cut off has ``complete=False`` and its finished
        processes only.

        Raises `StoreError` where there is no such run, `StoreVersionError`, and `DamagedStore`: where no run of the
        file can be read, the file is set aside.
        """
        with database.reading(self.path, aside=True) as rows:
            run = self._meant(rows, name)
            if run is not None:
                found = _read(rows, run, self.path)
                if isinstance(found, StoreError):
                    raise found
                return found
        path = Path(name)
        return schema.load(path / REPORTED if os.path.isdir(path) else path)

    def create(self, plan: Results) -> RunRecorder:
        """A new run, with a name of its own even if others make runs now.

        ``plan`` has the candidates; the processes, status and reason of its rows are left out. Raises `StoreError`.
        """
        nothing: dict[str, Any] = {"status": "missing", "reason": NOT_COME_TO, "processes": [], "parity": None}
        rows = [msgspec.structs.replace(row, **nothing) for row in plan.measurements]
        with refused(f"no run can be made in {self.folder}"):
            database.make(self.path)
            with database.writing(self.path, checked=True) as file:
                name = _name_after([*_names(file), *self._swept()])
                run = RunRecorder(self.path, name, plan)
                try:
                    begun = msgspec.structs.replace(plan, run=name, measurements=rows, complete=False, order=[])
                    file.execute("INSERT INTO runs VALUES (?, ?)", (name, _whole(begun, self.path)))
                except BaseException:
                    run.close()
                    raise
        return run

    def _swept(self) -> list[str]:
        """The runs that have a marker; markers of killed processes are removed."""
        markers = list(self.folder.glob(f"*{_RUNNING}"))
        for marker in markers:
            if not held(marker):
                with suppress(OSError):
                    marker.rmdir()
        return [marker.name.removesuffix(_RUNNING) for marker in markers]

    def _meant(self, rows: sqlite3.Connection, name: str) -> str | None:
        """The name of a run in the store; `None` where the name is a path. Raises `StoreError`."""
        names = _names(rows)
        if name in names:
            return name
        title, _, back = name.rpartition("~") if _BACK.search(name) else (name, "", "0")
        count, latest = 0, title == "latest"
        for count, run in enumerate(reversed(names) if latest else self._titled(rows, names, title), 1):
            if count > int(back):
                return run
        if count or latest:
            has = f"{count}{'' if latest else ' of that name'}{self._lost()}"
            raise StoreError(f"there is no run {name} in {self.folder}, which has {has}; xbackend compare makes one")
        if os.path.exists(name):
            return None
        meant = [n for n in names if name and n.startswith(name)]
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise StoreError(f"{name!r} is the beginning of {len(meant)} runs: {', '.join(meant)}; give more of it")
        has = (f"the newest are {', '.join(names[-3:])}" if names else "it has none") + self._lost()
        raise StoreError(
            f"there is no run {name!r} in {self.folder} ({has}), and no such file; xbackend runs lists them"
        )

    def _titled(self, rows: sqlite3.Connection, names: Sequence[str], title: str) -> Iterator[str]:
        """The runs with that title, the newest first. Raises `StoreError` where a newer one is damaged."""
        damaged = ""
        for run in reversed(names if title else []):
            found = _read(rows, run, self.path)
            if isinstance(found, StoreError):
                damaged = damaged or run
            elif found.name == title and damaged:
                raise StoreError(
                    f"{title!r} may be the run {damaged}, which is damaged and newer than {run}; name the run that you "
                    "mean by its time: xbackend runs lists them"
                )
            elif found.name == title:
                yield run

    def _lost(self) -> str:
        """The damaged files that may have held a missing run, in words."""
        found = database.damaged(self.path)
        return f"; {_found_damaged(self.folder, found)}" if found else ""


def _own(run: Results) -> Results:
    own = [row for row in run.measurements if not row.reused]
    return run if len(own) == len(run.measurements) else msgspec.structs.replace(run, measurements=own)


def _found_damaged(folder: Path, names: Sequence[str]) -> str:
    return f"{', '.join(names)} in {folder} was found damaged: put a copy of it in its place as {FILE}, or remove it"


def _names(rows: sqlite3.Connection) -> list[str]:
    return [name for (name,) in rows.execute("SELECT run FROM runs ORDER BY run")]


def _name_after(names: Sequence[str]) -> str:
    """The time now, or a second after the newest run if that is later. Raises `StoreError`."""
    at, newest = datetime.now(UTC).replace(microsecond=0, tzinfo=None), max(names, default="")
    try:
        with suppress(ValueError):  # there is none
            at = max(at, datetime.strptime(newest, _NAME) + timedelta(seconds=1))
    except OverflowError as error:
        raise StoreError(f"no run can be made after {newest}, the last time that there is") from error
    return at.strftime(_NAME)


def _whole(results: Results, path: Path) -> bytes:
    return schema.sealed(schema.plain(results, f"results cannot be kept in {path}"), indent=-1)


def _put(rows: sqlite3.Connection, table: str, told: dict[str, Any]) -> None:
    """Write a row: its key, and all of it as sealed JSON."""
    keys = [told[name] for name in ("run", "place", "number") if name in told]
    values = ", ".join("?" * (len(keys) + 1))
    rows.execute(f"INSERT OR REPLACE INTO {table} VALUES ({values})", (*keys, schema.sealed(told, indent=-1)))


def _rows(rows: sqlite3.Connection, kind: type[_Row], run: str) -> list[_Row]:
    """The rows of a run in a table. Raises `DamagedStore`."""
    found, table = [], _TABLES[kind]
    for *keys, content in rows.execute(f"SELECT * FROM {table} WHERE run = ? ORDER BY 1, 2, 3", (run,)):
        try:
            one = msgspec.convert(schema.opened(content), kind)
            if keys != [getattr(one, name) for name in ("run", "place", "number") if hasattr(one, name)]:
                raise ValueError("it is another one")
        except (ValueError, TypeError, RecursionError) as error:
            raise DamagedStore(f"the row {keys[1:]} of its {table}: {error}") from error
        found.append(one)
    return found


def _read(rows: sqlite3.Connection, run: str, path: Path) -> Results | StoreError:
    """The results of a run, from its records if it is unfinished, or why they cannot be read."""
    where = f"run {run} in {path}"
    try:
        (content,) = rows.execute("SELECT CAST(content AS BLOB) FROM runs WHERE run = ?", (run,)).fetchone()
        found = schema.decode(content, where, Results)
    except StoreError as error:
        return error
    try:
        if found.run != run:
            raise DamagedStore(f"it is the run {found.run!r}")
        return found if found.complete else _recorded(rows, found)
    except DamagedStore as error:
        return DamagedStore(f"{where} is damaged: {error}; restore the file or measure again")


def _recorded(rows: sqlite3.Connection, plan: Results) -> Results:
    """A plan with its records. Raises `DamagedStore`."""
    known = {row.place: row.measurement for row in _rows(rows, _Candidate, plan.run)}
    visits = grouped((one.place, one.visit) for one in _rows(rows, _Visit, plan.run))
    recorded, processes = _rows(rows, _Process, plan.run), dict[int, list[Process]]()
    for one in recorded:
        try:
            process = msgspec.convert({**one.process, "visits": visits.get(one.place)}, Process)
        except msgspec.ValidationError as error:
            raise DamagedStore(f"its process {one.place}: {error}") from error
        processes.setdefault(one.candidate, []).append(process)
    measurements = []
    for place, planned in enumerate(plan.measurements):
        row = known.get(place, planned)
        own = [] if row.status in UNPROVEN else processes.get(place, row.processes)
        measurements.append(msgspec.structs.replace(row, processes=own))
    labels = {one.place: one.label for one in recorded}
    last = max(labels, default=-1)
    # A place that no session has comes from a damaged file, and must not make a long list.
    order = [labels.get(place, "") for place in range(last + 1)] if last < 1_000_000 else []
    return msgspec.structs.replace(plan, measurements=measurements, order=order or plan.order)
