"""The tables of one group of candidates: the comparison itself, the phases ledger, and what was not measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xbackend.measure.results import Measurement, Parity
from xbackend.report import text
from xbackend.report.blocks import Table, table
from xbackend.report.candidates import PHASES, Candidate, Group

HEADERS = ("backend", "devices", "median", "GFLOP/s", "ratio", "spread (processes)", "parity", "compile", "status")
_NUMBERS = ("devices", "median", "GFLOP/s", "ratio", "spread (processes)", "compile")
_SHORT = 160


def comparison_rows(group: Group) -> list[list[str]]:
    """A row of `HEADERS` for each candidate, times in one unit."""
    unit = text.time_unit(c.median for c in group.candidates)
    compile_unit = text.time_unit(c.compile_time for c in group.candidates)
    return [
        [
            text.plain(c.measurement.backend),
            str(c.measurement.devices),
            text.time(c.median, unit),
            text.number(c.gflops),
            _ratio(c, group.baseline),
            _spread(c, unit),
            parity(c.measurement.parity),
            text.time(c.compile_time, compile_unit),
            status(c.measurement),
        ]
        for c in group.candidates
    ]


def comparison(group: Group) -> Table:
    """The table of a group."""
    return table(HEADERS, comparison_rows(group), right=_NUMBERS)


def _ratio(candidate: Candidate, baseline: Candidate | None) -> str:
    if candidate is baseline:
        return "1 (baseline)"
    return text.number(candidate.ratio(baseline))


def _spread(candidate: Candidate, unit: tuple[str, float]) -> str:
    if candidate.spread is None:
        return text.NOTHING
    count = len(candidate.medians)
    low, high = candidate.spread
    if count == 1:
        return f"{text.NOTHING} ({count})"
    below = text.number(low / unit[1], 4) if math.isfinite(low) and math.isfinite(high) else text.time(low, unit)
    return f"{below} to {text.time(high, unit)} ({count})"


def parity(found: Parity | None) -> str:
    """The relative error beside the largest that passes."""
    if found is None:
        return text.NOTHING
    relation = "≤" if found.passed else "not ≤"
    return f"{_power(found.relative_error)} {relation} {_power(found.tolerance)}"


def _power(value: float) -> str:
    return f"{value:.1e}" if math.isfinite(value) and value else text.number(value)


def status(measurement: Measurement, length: int = _SHORT) -> str:
    """The status and, where it is not ok, its reason in at most so many characters."""
    known = text.plain(measurement.status)
    return known if measurement.status == "ok" else f"{known}: {text.shorten(reason(measurement), length)}"


def reason(measurement: Measurement) -> str:
    """Why a measurement is not ok."""
    return text.plain(measurement.reason) or "no reason was recorded"


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
    names = [[text.plain(c.measurement.backend), str(c.measurement.devices)] for c in candidates]
    rows = [[*name, *cells] for name, cells in zip(names, zip(*columns, strict=True), strict=True)]
    return table(headers, rows, right=headers[1:])


def _in_unit(seconds: float | None, unit: tuple[str, float]) -> str:
    return text.number(None if seconds is None else seconds / unit[1], 3)


def not_ok(measurements: Sequence[Measurement]) -> Table | None:
    """Everything that was not measured, with its whole reason; `None` where all is well."""
    rows = [
        [
            " ".join([text.plain(m.workload), text.pairs(m.parameters)]),
            text.plain(m.backend),
            str(m.devices),
            text.plain(m.status),
            reason(m) + _finished(m),
        ]
        for m in measurements
        if m.status != "ok"
    ]
    return table(("workload", "backend", "devices", "status", "reason"), rows, right=("devices",)) if rows else None


def _finished(measurement: Measurement) -> str:
    count = len(Candidate(measurement).processes)
    return f" ({text.counted(count, 'finished process', 'finished processes')} not counted)" if count else ""
