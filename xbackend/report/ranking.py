"""The table of a comparison that is read first, sorted: one device against several, or all against the baseline."""

from __future__ import annotations

from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.scaling import Scaling, scalings
from xbackend.report import text
from xbackend.report.blocks import Block, Bold, Inline, table
from xbackend.wording import counted

SPEEDUP = f"speed-up ({text.INTERVAL})"


def ranking(comparison: Comparison) -> Block:
    """Sorted by the speed-up where several devices were measured against one, else by the time."""
    own = scalings(comparison)
    return _devices(comparison, own) if own else _times(comparison)


def _devices(comparison: Comparison, own: list[Scaling]) -> Block:
    unit = text.time_unit(row.time for row in comparison.rows)
    counts = sorted({s.devices for s in own})
    columns = ["devices"] if len(counts) > 1 else []
    many = counted(counts[0], "device") if len(counts) == 1 else "several"
    fastest = comparison.ranked[0]
    rows: list[list[Inline]] = []
    for s in sorted(own, key=lambda s: s.ratio.value):
        one = next(row for row in comparison.ranked if row.label == s.many.label and row.devices == 1)
        cells = [
            s.many.label,
            *[str(s.devices)] * len(columns),
            _time(one, unit, fastest),
            _time(s.many, unit, fastest),
        ]
        error = text.error(one.measurement, s.many.measurement)
        rows.append([*cells, text.speedup(s), error, text.verdict(s.ratio)])
    shown = {s.many.label for s in own}
    labels = dict.fromkeys(row.label for row in comparison.rows if row.label not in shown)
    for label in labels:
        mine = {row.devices: row for row in comparison.rows if row.label == label}
        ends = [mine.get(1), next((mine[n] for n in reversed(counts) if n in mine), None)]
        cells = [label, *[text.NOTHING] * len(columns), *(_time(row, unit, fastest) for row in ends)]
        there = [row for row in ends if row is not None]
        rows.append([*cells, text.NOTHING, text.error(*(row.measurement for row in there)), _states(there)])
    headers = ["backend", *columns, "1 device", many, SPEEDUP, text.ERROR, "verdict"]
    return table(headers, rows, right=headers[1:-1])


def _times(comparison: Comparison) -> Block:
    unit = text.time_unit(row.time for row in comparison.rows)
    several = len({row.devices for row in comparison.rows}) > 1
    fastest = comparison.ranked[0] if comparison.ranked else None
    rows: list[list[Inline]] = []
    for row in [*comparison.ranked, *(row for row in comparison.rows if not row.times)]:
        against = comparison.against_baseline(row)
        ratio, verdict = text.NOTHING, _states([row])
        if row is comparison.baseline:
            ratio, verdict = "1", "baseline"
        elif against is not None:
            ratio, verdict = text.ratio(against), text.verdict(against)
        cells = [row.label, *[str(row.devices)] * several, _time(row, unit, fastest), ratio]
        rows.append([*cells, text.error(row.measurement), verdict])
    headers = ["backend", *["devices"] * several, "time", text.to_baseline([comparison]), text.ERROR, "verdict"]
    return table(headers, rows, right=headers[1:-1])


def _time(row: Row | None, unit: tuple[str, float], fastest: Row | None) -> Inline:
    """A time, stressed where it is the smallest; or what became of it."""
    if row is None or row.time is None:
        return text.NOTHING if row is None or row.measurement.status == "ok" else row.measurement.status
    return Bold(text.time(row.time, unit)) if row is fastest else text.time(row.time, unit)


def _states(rows: list[Row]) -> str:
    """What became of rows without a ratio."""
    states = dict.fromkeys(row.measurement.status for row in rows if row.measurement.status != "ok")
    return ", ".join(states) or text.NOTHING
