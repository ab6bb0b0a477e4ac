"""The tables of a comparison: the comparison itself, the phases ledger, parity, and what was not measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xbackend.analysis.comparison import Comparison, Row, cold, median_of
from xbackend.report import text
from xbackend.report.blocks import Block, paragraph, table, tabled
from xbackend.results.schema import Measurement, Parity, Phases
from xbackend.wording import counted, join, plain

RATIO = f"ratio to the baseline ({text.INTERVAL})"
HEADERS = (
    *("backend", "devices", "time", "GFLOP/s", RATIO, "verdict", "spread (processes)", text.ERROR, "compile"),
    *("compile from cache", "status"),
)
_WORDS = ("backend", "verdict", "status")
NUMBERS = tuple(header for header in HEADERS if header not in _WORDS)
_PARITY = ("backend", "devices", "relative error", "largest that passes", "largest error (ULP)", "passed", "inputs")
_CHECKS = ("backend", "devices", "a second wait adds", "twice the work takes", "compilers watched")
_SHORT = 160


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


def times(comparison: Comparison) -> Block:
    """The comparison itself; the reasons of what is not ok stand below it, where there is room for them."""
    states = [row.measurement.status for row in comparison.rows]
    rows = [[*cells[:-1], state] for cells, state in zip(comparison_rows(comparison), states, strict=True)]
    return table(HEADERS, rows, right=NUMBERS)


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


def status(measurement: Measurement) -> str:
    """The status and, where it is not ok, the beginning of its reason."""
    known = measurement.status
    return known if known == "ok" else f"{known}: {text.shorten(reason(measurement), _SHORT)}"


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
    rows = [
        [
            row.label,
            str(row.devices),
            text.power(parity.relative_error),
            text.power(parity.tolerance),
            text.number(parity.ulps),
            _passed(row.measurement, parity),
            parity.inputs[:12],
        ]
        for row in comparison.rows
        if (parity := row.measurement.parity) is not None
    ]
    known = [row.measurement.parity.derived for row in comparison.rows if row.measurement.parity is not None]
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
            m = row.measurement
            if m.status != "ok":
                there = where.setdefault((row.label, m.status, reason(m) + _kept(m)), {})
                there.setdefault(comparison.label, []).append(str(row.devices))
    rows = [[*what, "; ".join(f"{c} on {_devices(d)}" for c, d in there.items())] for what, there in where.items()]
    return tabled(("backend", "status", "reason", "where"), rows)


def _devices(counts: Sequence[str]) -> str:
    return f"{join(counts)} device{'' if list(counts) == ['1'] else 's'}"


def _kept(measurement: Measurement) -> str:
    count = len(measurement.processes)
    return f" ({counted(count, 'finished process', 'finished processes')} not counted)" if count else ""
