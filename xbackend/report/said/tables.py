"""The tables of a comparison: the one that is read first, all figures, phases, parity, and what was not measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xbackend.analysis.comparison import Comparison, Row, cold, median_of
from xbackend.analysis.scaling import Scaling, scalings
from xbackend.report.said import text
from xbackend.report.said.blocks import Block, Bold, Inline, paragraph, section, table, tabled
from xbackend.results.schema import Measurement, Parity, Phases
from xbackend.wording import counted, join, plain

SPEEDUP = f"speed-up ({text.INTERVAL})"
HEADERS = (
    *("backend", "devices", "time", "GFLOP/s", f"ratio to the baseline ({text.INTERVAL})", "verdict"),
    *("spread (processes)", text.ERROR, "compile", "compile from cache", "status"),
)
NUMBERS = tuple(header for header in HEADERS if header not in ("backend", "verdict", "status"))
_PARITY = ("backend", "devices", "relative error", "largest that passes", "largest error (ULP)", "passed", "inputs")
_CHECKS = ("backend", "devices", "a second wait adds", "twice the work takes", "compilers watched")
_SHORT = 160


def each(
    comparisons: Sequence[Comparison], title: str, part: Callable[[Comparison], list[Block]], introduction: str = ""
) -> list[Block]:
    """The same part of every comparison that has it, below its name."""
    there = [block for c in comparisons for block in section(f"{title}: {c.label}", part(c), level=3)]
    return [paragraph(introduction), *there] if there and introduction else there


def ranking(comparison: Comparison) -> Block:
    """Sorted by the speed-up where several devices were measured against one, else by the time."""
    own = scalings(comparison)
    return _by_speedup(comparison, own) if own else _by_time(comparison)


def _by_speedup(comparison: Comparison, own: Sequence[Scaling]) -> Block:
    unit = text.time_unit(row.time for row in comparison.rows)
    counts = sorted({s.devices for s in own})
    columns = ["devices"] if len(counts) > 1 else []
    many = counted(counts[0], "device") if len(counts) == 1 else "several"
    fastest = comparison.ranked[0]
    rows: list[list[Inline]] = []
    for s in sorted(own, key=lambda s: s.ratio.value):
        one = next(row for row in comparison.ranked if row.label == s.many.label and row.devices == 1)
        times = [_time(row, unit, fastest) for row in (one, s.many)]
        error = text.error(one.measurement, s.many.measurement)
        devices = [str(s.devices)] * len(columns)
        rows.append([s.many.label, *devices, *times, text.speedup(s), error, text.verdict(s.ratio)])
    shown = {s.many.label for s in own}
    for label in dict.fromkeys(row.label for row in comparison.rows if row.label not in shown):
        mine = {row.devices: row for row in comparison.rows if row.label == label}
        ends = [mine.get(1), next((mine[n] for n in reversed(counts) if n in mine), None)]
        there = [row for row in ends if row is not None]
        cells = [label, *[text.NOTHING] * len(columns), *(_time(row, unit, fastest) for row in ends)]
        rows.append([*cells, text.NOTHING, text.error(*(row.measurement for row in there)), _states(there)])
    headers = ["backend", *columns, "1 device", many, SPEEDUP, text.ERROR, "verdict"]
    return table(headers, rows, right=headers[1:-1])


def _by_time(comparison: Comparison) -> Block:
    unit = text.time_unit(row.time for row in comparison.rows)
    several = len({row.devices for row in comparison.rows}) > 1
    fastest = comparison.ranked[0] if comparison.ranked else None
    rows: list[list[Inline]] = []
    for row in [*comparison.ranked, *(row for row in comparison.rows if not row.times)]:
        ratio, verdict = _ratio(row, comparison)
        cells = [row.label, *[str(row.devices)] * several, _time(row, unit, fastest), ratio]
        said = _states([row]) if verdict == text.NOTHING else verdict
        rows.append([*cells, text.error(row.measurement), said])
    headers = ["backend", *["devices"] * several, "time", text.to_baseline([comparison]), text.ERROR, "verdict"]
    return table(headers, rows, right=headers[1:-1])


def _time(row: Row | None, unit: tuple[str, float], fastest: Row | None) -> Inline:
    """A time, stressed where it is the smallest; or what became of it."""
    if row is None or row.time is None:
        return text.NOTHING if row is None else _states([row])
    return Bold(text.time(row.time, unit)) if row is fastest else text.time(row.time, unit)


def _states(rows: Sequence[Row]) -> str:
    """What became of rows without a ratio."""
    states = dict.fromkeys(row.measurement.status for row in rows if row.measurement.status != "ok")
    return ", ".join(states) or text.NOTHING


def comparison_rows(comparison: Comparison) -> list[list[str]]:
    """A row of `HEADERS` for each measurement, times in one unit."""
    unit = text.time_unit(row.time for row in comparison.rows)
    compile_unit = text.time_unit(row.compile_time for row in comparison.rows)
    return [
        [
            row.label,
            str(row.devices),
            text.time(row.time, unit),
            text.number(row.gflops),
            *_ratio(row, comparison),
            _spread(row, unit),
            text.error(row.measurement),
            text.time(row.compile_time, compile_unit),
            text.time(median_of(row.from_cache), compile_unit),
            status(row.measurement),
        ]
        for row in comparison.rows
    ]


def figures(comparison: Comparison) -> list[Block]:
    """All of it; the reasons of what is not ok stand elsewhere, where there is room for them."""
    states = [row.measurement.status for row in comparison.rows]
    rows = [[*cells[:-1], state] for cells, state in zip(comparison_rows(comparison), states, strict=True)]
    return tabled(HEADERS, rows, right=NUMBERS)


def _ratio(row: Row, comparison: Comparison) -> tuple[str, str]:
    """The ratio to the baseline with its interval, and the verdict: never the one without the other."""
    if row is comparison.baseline:
        return "1", "baseline"
    against = comparison.against_baseline(row)
    return (text.NOTHING, text.NOTHING) if against is None else (text.ratio(against), text.verdict(against))


def _spread(row: Row, unit: tuple[str, float]) -> str:
    if row.spread is None:
        return text.NOTHING
    low, high = row.spread
    if len(row.times) == 1:
        return f"{text.NOTHING} (1)"
    return f"{text.number(low / unit[1], 4)} to {text.time(high, unit)} ({len(row.times)})"


def status(m: Measurement) -> str:
    """The status and, where it is not ok, the beginning of its reason."""
    return m.status if m.status == "ok" else f"{m.status}: {text.shorten(reason(m), _SHORT)}"


def reason(measurement: Measurement) -> str:
    """Why a measurement is not ok."""
    return plain(measurement.reason) or "no reason was recorded"


def phases(comparison: Comparison) -> list[Block]:
    """The phases ledger: the median of each phase over the processes; empty where no process finished."""
    rows = [row for row in comparison.rows if row.processes]
    headers = ["backend", "devices"]
    columns = [[row.label for row in rows], [str(row.devices) for row in rows]]
    for phase in Phases.__struct_fields__:
        medians = [row.phase(phase) for row in rows]
        name, length = text.time_unit(medians)
        headers.append(f"{phase.replace('_', ' ')} ({name})")
        columns.append([text.number(None if seconds is None else seconds / length) for seconds in medians])
    if any(p.rewriting is not None for row in rows for p in row.processes):
        headers += ["of lower: rewriting", "compiling", "rewrites"]
        columns += map(list, zip(*map(_rewriting, rows), strict=True))
    return tabled(headers, list(zip(*columns, strict=True)), right=headers[1:])


def _rewriting(row: Row) -> tuple[str, str, str]:
    """What of ``lower`` the framework's rewriting took, what the rest, and how many variables were replaced."""
    known = [(p.rewriting, p.phases.lower, p.rewrites) for p in cold(row.processes)]
    parts = [(r, max(0.0, lower - r), n) for r, lower, n in known if r is not None and lower is not None]
    if not parts:
        return text.NOTHING, text.NOTHING, text.NOTHING
    seconds, rest, count = (median_of(part) for part in zip(*parts, strict=True))
    return text.time(seconds), text.time(rest), text.NOTHING if count is None else f"{count:g}"


def parities(comparison: Comparison) -> list[Block]:
    """How far each result is from the oracle's; empty where no comparison was recorded."""
    rows, known = [], []
    for row, parity in ((row, row.measurement.parity) for row in comparison.rows):
        if parity is not None:
            errors = [text.power(parity.relative_error), text.power(parity.tolerance), text.number(parity.ulps)]
            passed = _passed(row.measurement, parity)
            rows.append([row.label, str(row.devices), *errors, passed, parity.inputs[:12]])
            known.append(parity.derived)
    passes = [paragraph(f"The largest relative error that passes: {why}.") for why in dict.fromkeys(known) if why]
    return [*tabled(_PARITY, rows, right=_PARITY[1:5]), *passes]


def _passed(measurement: Measurement, parity: Parity) -> str:
    if measurement.status in ("not verified", "not determined"):
        return measurement.status
    return "yes" if parity.relative_error <= parity.tolerance else "no"


def checks(comparison: Comparison) -> list[Block]:
    """What the checks of the timing itself found, the worst over the processes; empty where none was recorded."""
    rows = []
    for row in comparison.rows:
        kept = [(process.checks, process.compiled or []) for process in row.processes if process.checks]
        if kept:
            waits = _worst(max, [100 * each["second_wait"] for each, _ in kept if "second_wait" in each], "{} %", 2)
            twice = _worst(min, [each["twice"] for each, _ in kept if "twice" in each], "{} times as long", 3)
            watched = ", ".join(sorted({name for _, compiled in kept for name in compiled})) or text.NOTHING
            rows.append([row.label, str(row.devices), waits, twice, watched])
    return tabled(_CHECKS, rows, right=_CHECKS[1:4])


def _worst(which: Callable[[list[float]], float], values: list[float], words: str, digits: int) -> str:
    return words.format(text.number(which(values), digits)) if values else text.NOTHING


def not_ok(comparisons: Sequence[Comparison]) -> list[Block]:
    """Everything that was not measured, each whole reason once; empty where all is well."""
    where: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for comparison in comparisons:
        for row in comparison.rows:
            m, kept = row.measurement, len(row.measurement.processes)
            if m.status != "ok":
                left = f" ({counted(kept, 'finished process', 'finished processes')} not counted)" if kept else ""
                there = where.setdefault((row.label, m.status, reason(m) + left), {})
                there.setdefault(comparison.label, []).append(str(row.devices))
    rows = []
    for what, there in where.items():
        each = (f"{label} on {join(on)} device{'' if on == ['1'] else 's'}" for label, on in there.items())
        rows.append([*what, "; ".join(each)])
    return tabled(("backend", "status", "reason", "where"), rows)
