"""A store's runs over time: series by workload, machine and threads, each of lines, each of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xbackend.analysis import packages
from xbackend.analysis.between_runs import change, place_of
from xbackend.analysis.comparison import Row, titled
from xbackend.analysis.statistics import Ratio
from xbackend.errors import UsageError
from xbackend.results.schema import Measurement, Results, key_of
from xbackend.wording import counted, grouped, join, plain


@dataclass(frozen=True)
class Point:
    """The row of a line in one run."""

    run: Results
    measured: Row
    change: Ratio | None  #: against the latest earlier point with a time, in a complete run
    news: str  #: the changed versions, from and to
    new: str  #: the new ones alone


@dataclass(frozen=True)
class Line:
    """A backend on so many devices over the runs, the oldest first."""

    label: str
    devices: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Series:
    """The lines of one workload with the same parameters on one machine, and its runs."""

    title: str
    workload: str
    place: str
    lines: tuple[Line, ...]
    runs: tuple[Results, ...]


def series(runs: Sequence[Results], workload: str | None = None) -> list[Series]:
    """The measurements of the runs (the oldest first), by workload, parameters, machine, threads and variables.

    Raises `UsageError`, which lists the workloads there are, where ``workload`` is in none of them.
    """
    there = list(dict.fromkeys(m.workload for run in runs for m in run.measurements))
    if workload is not None and workload not in there:
        words = f"there is {join(map(plain, there))}" if there else "nothing was measured"
        raise UsageError(f"there is no workload {plain(workload)!r} in {counted(len(runs), 'run')}; {words}")
    members = ((place_of(run), (run, m)) for run in runs for m in run.measurements if workload in (None, m.workload))
    compared = grouped(((m.workload, key_of(m.parameters)), (place, (run, m))) for place, (run, m) in members)
    return [_series(each) for places in compared.values() for each in grouped(places).values()]


def _series(members: Sequence[tuple[Results, Measurement]]) -> Series:
    run, first = members[0]
    measured = [(each, Row(measurement)) for each, measurement in members]
    lines = grouped(((row.label, row.devices), (each, row)) for each, row in measured)
    threads = run.settings.threads
    of_device = "" if run.settings.cores_per_device is None else " a device"
    variables = "".join(f", {plain(name)}={plain(value)}" for name, value in sorted(run.settings.variables.items()))
    kinds = f", on {join(map(plain, run.settings.kinds))}" if run.settings.kinds else ""
    place = f"{plain(run.machine.processor)}, {counted(run.machine.cores, 'core')}{kinds}"
    return Series(
        title=titled(first.workload, first.parameters),
        workload=first.workload,
        place=place + (f", {counted(threads, 'thread')}{of_device}" if threads is not None else "") + variables,
        lines=tuple(Line(label, devices, _points(each)) for (label, devices), each in lines.items()),
        runs=tuple({id(each): each for each, _ in members}.values()),
    )


def name_of(run: Results) -> str:
    """The name of a run for its readers."""
    return plain(run.run or run.name)


def _points(members: Sequence[tuple[Results, Row]]) -> tuple[Point, ...]:
    points: list[Point] = []
    before: tuple[Results, Row] | None = None
    known: dict[str, str] = {}
    for run, measured in members:
        since = None if before is None else change(before, (run, measured), [each for each, _ in members])
        now = packages.frameworks(measured.measurement)
        changed = {package: version for package, version in now.items() if known.get(package, version) != version}
        news = packages.words({package: f"{known[package]} to {version}" for package, version in changed.items()})
        points.append(Point(run, measured, since, news, packages.words(changed)))
        known.update(now)
        if measured.times and run.complete:
            before = run, measured
    return tuple(points)


def changes(of: Sequence[Series]) -> list[tuple[Series, Line, Point]]:
    """The lines that are shown to be faster or slower in their newest run than before."""
    newest = [(each, line, line.points[-1]) for each in of for line in each.lines]
    return [(each, line, p) for each, line, p in newest if p.change is not None and p.change.shown]
