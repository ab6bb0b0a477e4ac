"""What a store's runs say over time: series by workload, machine and threads, each of lines, each of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xbackend import wording
from xbackend.analysis.between_runs import floor_of, times_before
from xbackend.analysis.statistics import Ratio, Verdict
from xbackend.errors import UsageError
from xbackend.report import text, versions
from xbackend.report.candidates import Candidate, compared
from xbackend.results.schema import Measurement, Results, key_of
from xbackend.wording import counted, join, plain


@dataclass(frozen=True)
class Point:
    """A candidate in one run.

    ``change`` is against the point before it that has a time, in a complete run; ``news`` says what versions changed,
    ``new`` those there are since.
    """

    run: str
    created: str
    complete: bool
    candidate: Candidate
    change: Ratio | None
    news: str
    new: str


@dataclass(frozen=True)
class Line:
    """A backend on so many devices over the runs, the oldest first."""

    label: str
    devices: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Series:
    """The lines of one workload with the same parameters on one machine, and its runs by name and date."""

    title: str
    workload: str
    place: str
    lines: tuple[Line, ...]
    runs: tuple[tuple[str, str], ...]


def series(runs: Sequence[Results], workload: str | None = None) -> list[Series]:
    """What was measured in the runs (the oldest first), by workload, parameters, machine and threads.

    Raises `UsageError`, which lists the workloads there are, where ``workload`` is in none of them.
    """
    there = list(dict.fromkeys(m.workload for run in runs for m in run.measurements))
    if workload is not None and workload not in there:
        words = f"there is {join(map(plain, there))}" if there else "nothing was measured"
        raise UsageError(f"there is no workload {plain(workload)!r} in {counted(len(runs), 'run')}; {words}")
    found: dict[tuple[str, str], dict[tuple[str, str], list[tuple[Results, Measurement]]]] = {}
    for run in runs:
        place = run.machine.fingerprint, wording.value(run.settings.get("threads"))
        for m in run.measurements:
            if workload in (None, m.workload):
                places = found.setdefault((m.workload, key_of(m.parameters)), {})
                places.setdefault(place, []).append((run, m))
    return [_series(members) for places in found.values() for members in places.values()]


def _series(members: Sequence[tuple[Results, Measurement]]) -> Series:
    run, first = members[0]
    lines: dict[tuple[str, int], list[tuple[Results, Candidate]]] = {}
    for each, measurement in members:
        candidate = Candidate(measurement)
        lines.setdefault((candidate.label, measurement.devices), []).append((each, candidate))
    parameters = wording.pairs(first.parameters)
    threads = run.settings.get("threads")
    place = f"{plain(run.machine.processor)}, {counted(run.machine.cores, 'core')}"
    return Series(
        title=plain(first.workload) + (f": {parameters}" if parameters else ""),
        workload=first.workload,
        place=place + (f", {text.threads(threads)}" if threads is not None else ""),
        lines=tuple(Line(label, devices, _points(each)) for (label, devices), each in lines.items()),
        runs=tuple(dict.fromkeys((name_of(each), text.moment(each.created)) for each, _ in members)),
    )


def name_of(run: Results) -> str:
    return plain(run.run or run.name)


def _points(members: Sequence[tuple[Results, Candidate]]) -> tuple[Point, ...]:
    points: list[Point] = []
    before: tuple[Results, Candidate] | None = None
    known: dict[str, str] = {}
    for run, candidate in members:
        change = None
        if before is not None:
            floor = floor_of(before[0], run, candidate.measurement)
            earlier = times_before(run, before[1].measurement, [each for each, _ in members])
            change = compared(candidate, before[1], floor, earlier)
        now = versions.frameworks(candidate.measurement)
        changed = {package for package, version in now.items() if known.get(package, version) != version}
        news = versions.words({package: f"{known[package]} to {now[package]}" for package in now if package in changed})
        new = versions.words({package: now[package] for package in now if package in changed})
        moment = text.moment(run.created)
        points.append(Point(name_of(run), moment, run.complete, candidate, change, news, new))
        known.update(now)
        if candidate.usable and run.complete:
            before = run, candidate
    return tuple(points)


def changes(found: Sequence[Series]) -> list[tuple[Series, Line, Point]]:
    """What is shown to be faster or slower in the newest run of a line than in the one before."""
    shown = (Verdict.FASTER, Verdict.SLOWER)
    newest = [(each, line, line.points[-1]) for each in found for line in each.lines]
    return [(each, line, p) for each, line, p in newest if p.change is not None and p.change.verdict in shown]
