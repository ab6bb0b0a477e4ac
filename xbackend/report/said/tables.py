"""The tables of a comparison: the first one, all figures, phases, memory, parity, and the rows without a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xbackend.analysis.across import Matrix
from xbackend.analysis.answer import devices_compared, named
from xbackend.analysis.comparison import Comparison, Row, cold, median_of
from xbackend.analysis.scaling import scalings
from xbackend.analysis.statistics import Ratio
from xbackend.drawing.graph import bytes_text
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Bold, Inline, paragraph, points, records, table
from xbackend.results.schema import Measurement, Phases
from xbackend.wording import counted, grouped, join, plain

SPEEDUP = f"speed-up ({text.INTERVAL})"
WORDS = ("workload", "backend", "verdict", "status")  # the columns of all figures that are no numbers
MEMORY = (
    "The largest resident set of the process during a call once it is compiled, over that before its inputs were "
    "there: inputs, results, what lives between, and what compiling left behind. Medians over the processes."
)


def against(comparisons: Sequence[Comparison], asked: bool) -> str:
    """The header of ratios: to one device of the same backend where several numbers of devices were compared and no
    baseline was ``asked`` for, else to the baseline, which is named where all have the same."""
    if devices_compared(comparisons) and not asked:
        return SPEEDUP
    names = {None if c.baseline is None else named(c.baseline, c) for c in comparisons}
    (name,) = names if len(names) == 1 else (None,)
    return f"ratio to {name or 'the baseline'} ({text.INTERVAL})"


def judged(comparison: Comparison, header: str) -> list[tuple[Row, str, str, Ratio | None]]:
    """The rows, the fastest first, those without a time last: ratio and verdict in words, always both, and the
    `Ratio`."""
    references: dict[Row | None, str] = {comparison.baseline: "baseline"}
    ratios = {row: comparison.ratio(row, comparison.baseline) for row in comparison.rows}
    if header == SPEEDUP:
        references = {row: "one device" for row in comparison.ranked if row.devices == 1}
        ratios = {s.many: s.ratio for s in scalings(comparison)}
    found: list[tuple[Row, str, str, Ratio | None]] = []
    for row in comparison.ordered:
        if row in references:
            found.append((row, "1", references[row], None))
        elif (ratio := ratios.get(row)) is not None:
            over = ratio.inverse if header == SPEEDUP else ratio
            found.append((row, text.ratio(over), text.verdict(ratio), ratio))
        else:
            found.append((row, text.NOTHING, text.NOTHING if row.times else row.measurement.status, None))
    return found


def ranking(comparison: Comparison, asked: bool) -> list[AnyBlock]:
    """The first table of a comparison, as a terminal shows it."""
    header, unit = against([comparison], asked), text.time_unit(row.time for row in comparison.rows)
    several, rows = len({row.devices for row in comparison.rows}) > 1, list[dict[str, Inline]]()
    for row, ratio, verdict, _ in judged(comparison, header):
        time = text.time(row.time, unit)
        name: dict[str, Inline] = {"backend": shown(row), **({"devices": str(row.devices)} if several else {})}
        cells = {"time": Bold(time) if row in comparison.ranked[:1] else time, header: ratio}
        rows.append(name | cells | {text.ERROR: text.error(row.measurement), "verdict": verdict})
    return records(rows, words=("backend", "verdict"))


def figures(comparison: Comparison) -> list[dict[str, str]]:
    """All figures of each row, times in one unit."""
    unit = text.time_unit(row.time for row in comparison.rows)
    compile_unit = text.time_unit(median_of(row.compilations) for row in comparison.rows)
    verdicts = {row: (ratio, verdict) for row, ratio, verdict, _ in judged(comparison, "")}
    return [
        _named(row)
        | {
            "time": text.time(row.time, unit),
            "GFLOP/s": text.number(row.gflops),
            f"ratio to the baseline ({text.INTERVAL})": verdicts[row][0],
            "verdict": verdicts[row][1] if row.times else text.NOTHING,
            "spread (processes)": _spread(row, unit),
            text.ERROR: text.error(row.measurement),
            "compile": text.time(median_of(row.compilations), compile_unit),
            "compile from cache": text.time(median_of(row.from_cache), compile_unit),
            "status": row.measurement.status,
        }
        for row in comparison.rows
    ]


def shown(row: Row) -> str:
    """The label of a row, and whether another session measured it."""
    return f"{row.label}, reused" if row.measurement.reused else row.label


def _named(row: Row) -> dict[str, str]:
    return {"backend": shown(row), "devices": str(row.devices)}


def _spread(row: Row, unit: tuple[str, float]) -> str:
    count, ends = len(row.times), (min(row.times, default=0.0), max(row.times, default=0.0))
    between = f"{text.number(ends[0] / unit[1], 4)} to {text.time(ends[1], unit)}" if count > 1 else text.NOTHING
    return f"{between} ({count})" if count else text.NOTHING


def reason(measurement: Measurement) -> str:
    """Why a measurement is not ok."""
    return plain(measurement.reason) or "no reason was recorded"


def phases(comparison: Comparison) -> list[AnyBlock]:
    """The phases ledger: the median of each phase over the processes; empty where no process finished."""
    rows = [row for row in comparison.rows if row.processes]
    units = {phase: text.time_unit([row.phase(phase) for row in rows]) for phase in Phases.__struct_fields__}
    rewritten = any(p.rewriting is not None for row in rows for p in row.processes)
    found = []
    for row in rows:
        cells = {
            f"{phase.replace('_', ' ')} ({name})": text.number((seconds := row.phase(phase)) and seconds / length)
            for phase, (name, length) in units.items()
        }
        found.append(_named(row) | cells | (_rewriting(row) if rewritten else {}))
    return records(found, words=("backend",))


def _rewriting(row: Row) -> dict[str, str]:
    """Rewriting and the rest of ``lower`` in seconds, and the number of replaced variables."""
    known = [(p.rewriting, p.phases.lower, p.rewrites) for p in cold(row.processes)]
    split = [(r, max(0.0, lower - r), n) for r, lower, n in known if r is not None and lower is not None]
    seconds, rest, count = (median_of(part) for part in zip(*split, strict=True)) if split else (None, None, None)
    rewrites = text.NOTHING if count is None else f"{count:g}"
    return {"of lower: rewriting": text.time(seconds), "compiling": text.time(rest), "rewrites": rewrites}


def parities(comparison: Comparison) -> list[AnyBlock]:
    """How far each result is from the oracle's; empty where no comparison was recorded."""
    rows, derived = list[dict[str, str]](), dict[str, None]()
    for row in comparison.rows:
        if (parity := row.measurement.parity) is not None:
            passed = "yes" if parity.relative_error <= parity.tolerance else "no"
            unsure = row.measurement.status in ("not verified", "not determined")
            errors = {"relative error": parity.relative_error, "largest that passes": parity.tolerance}
            cells = {name: text.power(error) for name, error in errors.items()}
            cells |= {"largest error (ULP)": text.number(parity.ulps)}
            cells |= {"passed": row.measurement.status if unsure else passed, "inputs": parity.inputs[:12]}
            rows.append(_named(row) | cells)
            derived |= {parity.derived: None}
    passes = [paragraph(f"The largest relative error that passes: {why}.") for why in derived if why]
    return [*records(rows, words=("backend", "passed", "inputs")), *passes]


def checks(comparison: Comparison) -> list[AnyBlock]:
    """The checks of the timing itself, the worst over the processes; empty where none was recorded."""
    rows = []
    for row in comparison.rows:
        kept = [(process.checks, process.compiled or []) for process in row.processes if process.checks]
        if kept:
            waits = _worst(max, [100 * each["second_wait"] for each, _ in kept if "second_wait" in each], "{} %", 2)
            twice = _worst(min, [each["twice"] for each, _ in kept if "twice" in each], "{} times as long", 3)
            watched = ", ".join(sorted({name for _, compiled in kept for name in compiled})) or text.NOTHING
            found = {"a second wait adds": waits, "twice the work takes": twice, "compilers watched": watched}
            rows.append(_named(row) | found)
    return records(rows, words=("backend", "compilers watched"))


def _worst(which: Callable[[list[float]], float], values: list[float], words: str, digits: int) -> str:
    return words.format(text.number(which(values), digits)) if values else text.NOTHING


def memory(comparison: Comparison) -> list[AnyBlock]:
    """The measured memory of each row, on devices too; empty without any."""
    rows = []
    for row in comparison.rows:
        if (used := row.memory) is not None:
            devices = ", ".join(f"{plain(name)} {bytes_text(count)}" for name, count in used.devices.items())
            peaks = {"a call": _peak(row), "the first call, with compiling": bytes_text(used.first_call)}
            last = {"devices, as the framework tells": devices or text.NOTHING}
            rows.append({"backend": row.name, **peaks, **last})
    return records(rows, right=("a call", "the first call, with compiling"))


def _peak(row: Row | None) -> str:
    return text.NOTHING if row is None or row.memory is None else bytes_text(row.memory.call)


def memory_across(matrix: Matrix) -> list[AnyBlock]:
    """The memory of a call, a line for each comparison, a column for each candidate; empty where none was measured."""
    lines = zip(matrix.comparisons, matrix.lines, strict=True)
    rows = [[comparison.label, *(_peak(one.row) for one in line)] for comparison, line in lines]
    measured = table(("workload", *matrix.columns), rows, right=matrix.columns)
    known = any({*cells} - {text.NOTHING} for _, *cells in rows)
    return [paragraph(MEMORY), measured, *memory_unknown(matrix.comparisons)] if known else []


def memory_unknown(comparisons: Sequence[Comparison]) -> list[AnyBlock]:
    """Why the memory of some rows is unknown, each reason once."""
    rows = [row for comparison in comparisons for row in comparison.rows if row.times and row.memory is None]
    why = grouped((plain(row.measurement.memory_unknown) or "it was not measured", row.label) for row in rows)
    return points([f"{text.names(names)}: {reason}."] for reason, names in why.items())


def not_ok(comparisons: Sequence[Comparison]) -> list[AnyBlock]:
    """The rows that were not measured, each whole reason once; empty where all were."""
    bad = [(c.label, row, row.measurement) for c in comparisons for row in c.rows if row.measurement.status != "ok"]
    where = grouped(((row.label, m.status, reason(m) + _left(m)), (label, str(row.devices))) for label, row, m in bad)
    rows = []
    for (name, state, why), there in where.items():
        on = [f"{label} on {join(n)} device{'' if n == ['1'] else 's'}" for label, n in grouped(there).items()]
        rows.append({"backend": name, "status": state, "reason": why, "where": "; ".join(on)})
    return records(rows)


def _left(m: Measurement) -> str:
    kept = len(m.processes)
    return f" ({counted(kept, 'finished process', 'finished processes')} not counted)" if kept else ""
