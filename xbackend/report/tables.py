"""The tables of a group of candidates: the comparison itself, the phases ledger, parity, and what was not measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xbackend import wording
from xbackend.report import text
from xbackend.report.blocks import Table, table
from xbackend.report.candidates import LEVEL, PHASES, Candidate, Group, label
from xbackend.results.schema import Measurement, Process
from xbackend.wording import counted, plain

RATIO = f"ratio ({LEVEL})"
HEADERS = (
    *("backend", "devices", "time", "GFLOP/s", RATIO, "verdict", "spread (processes)", "relative error", "compile"),
    "status",
)
_NUMBERS = ("devices", "time", "GFLOP/s", RATIO, "spread (processes)", "relative error", "compile")
_PARITY = ("backend", "devices", "relative error", "largest that passes", "largest error (ULP)", "passed", "inputs")
_CHECKS = ("backend", "devices", "a second wait adds", "twice the work takes", "compilers watched")
_SHORT = 160


def comparison_rows(group: Group) -> list[list[str]]:
    """A row of `HEADERS` for each candidate, times in one unit."""
    unit = text.time_unit(c.time for c in group.candidates)
    compile_unit = text.time_unit(c.compile_time for c in group.candidates)
    return [
        [
            c.label,
            str(c.measurement.devices),
            text.time(c.time, unit),
            text.number(c.gflops),
            *_compared(c, group),
            _spread(c, unit),
            text.power(c.measurement.parity.relative_error if c.measurement.parity else None),
            text.time(c.compile_time, compile_unit),
            status(c.measurement),
        ]
        for c in group.candidates
    ]


def comparison(group: Group) -> Table:
    """The table of a group; the reasons of what is not ok stand below it, where there is room for them."""
    rows = [
        [*row[:-1], plain(c.measurement.status)]
        for row, c in zip(comparison_rows(group), group.candidates, strict=True)
    ]
    return table(HEADERS, rows, right=_NUMBERS)


def _compared(candidate: Candidate, group: Group) -> tuple[str, str]:
    """The ratio to the baseline with its interval, and the verdict: never the one without the other."""
    if candidate is group.baseline:
        return "1", "baseline"
    found = group.against_baseline(candidate)
    return (text.NOTHING, text.NOTHING) if found is None else (text.ratio(found), text.verdict(found))


def _spread(candidate: Candidate, unit: tuple[str, float]) -> str:
    if candidate.spread is None:
        return text.NOTHING
    count = len(candidate.medians)
    low, high = candidate.spread
    if count == 1:
        return f"{text.NOTHING} ({count})"
    below = text.number(low / unit[1], 4) if math.isfinite(low) and math.isfinite(high) else text.time(low, unit)
    return f"{below} to {text.time(high, unit)} ({count})"


def status(measurement: Measurement, length: int = _SHORT) -> str:
    """The status and, where it is not ok, its reason in at most so many characters."""
    known = plain(measurement.status)
    return known if measurement.status == "ok" else f"{known}: {text.shorten(reason(measurement), length)}"


def reason(measurement: Measurement) -> str:
    """Why a measurement is not ok."""
    return plain(measurement.reason) or "no reason was recorded"


def phases(group: Group) -> Table | None:
    """The phases ledger: the median of each phase over the processes; `None` where no process finished."""
    candidates = [c for c in group.candidates if c.processes]
    if not candidates:
        return None
    headers = ["backend", "devices"]
    columns = []
    for phase in PHASES:
        unit = text.time_unit(c.phase(phase) for c in candidates)
        headers.append(f"{phase.replace('_', ' ')} ({unit[0]})")
        columns.append([_in_unit(c.phase(phase), unit) for c in candidates])
    names = [[c.label, str(c.measurement.devices)] for c in candidates]
    rows = [[*name, *cells] for name, cells in zip(names, zip(*columns, strict=True), strict=True)]
    return table(headers, rows, right=headers[1:])


def _in_unit(seconds: float | None, unit: tuple[str, float]) -> str:
    return text.number(None if seconds is None else seconds / unit[1], 3)


def parities(group: Group) -> Table | None:
    """How far each result is from the oracle's; `None` where no comparison was recorded."""
    found = [(c, c.measurement.parity) for c in group.candidates if c.measurement.parity is not None]
    if not found:
        return None
    rows = [
        [
            c.label,
            str(c.measurement.devices),
            text.power(p.relative_error),
            text.power(p.tolerance),
            text.number(p.ulps),
            "yes" if p.passed else "no",
            plain(p.inputs[:12]),
        ]
        for c, p in found
    ]
    return table(_PARITY, rows, right=_PARITY[1:5])


def checks(group: Group) -> Table | None:
    """What the checks of the timing itself found, the worst over the processes; `None` where none was recorded."""
    rows = [
        [c.label, str(c.measurement.devices), *_worst([p.checks for p in kept if p.checks]), _watched(kept)]
        for c in group.candidates
        if (kept := [p for p in c.processes if p.checks])
    ]
    return table(_CHECKS, rows, right=_CHECKS[1:4]) if rows else None


def _worst(found: Sequence[Mapping[str, float]]) -> list[str]:
    waits = [check["second_wait"] for check in found if "second_wait" in check]
    twice = [check["twice"] for check in found if "twice" in check]
    return [
        f"{text.number(100 * max(waits), 2)} %" if waits else text.NOTHING,
        f"{text.number(min(twice))} times as long" if twice else text.NOTHING,
    ]


def _watched(processes: Sequence[Process]) -> str:
    """The compilers that were watched in the timed rounds of all processes, in which none of them worked."""
    return ", ".join(sorted({plain(name) for p in processes for name in p.compiled or []})) or text.NOTHING


def not_ok(measurements: Sequence[Measurement]) -> Table | None:
    """Everything that was not measured, with its whole reason; `None` where all is well."""
    rows = [
        [
            " ".join([plain(m.workload), wording.pairs(m.parameters)]),
            label(m),
            str(m.devices),
            plain(m.status),
            reason(m) + _finished(m),
        ]
        for m in measurements
        if m.status != "ok"
    ]
    return table(("workload", "backend", "devices", "status", "reason"), rows, right=("devices",)) if rows else None


def _finished(measurement: Measurement) -> str:
    count = len(Candidate(measurement).processes)
    return f" ({counted(count, 'finished process', 'finished processes')} not counted)" if count else ""
