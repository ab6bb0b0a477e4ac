"""The first paragraphs of a report, for somebody who reads no further: who wins, by how much, how sure, on what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from xbackend import wording
from xbackend.analysis import packages
from xbackend.analysis.comparison import Comparison, Measured
from xbackend.analysis.statistics import FEWEST, Ratio, Verdict, drift
from xbackend.report import text
from xbackend.report.blocks import Block, Bold, Hyperlink, Inline, Notice, bullets, paragraph, table, terms
from xbackend.report.headings import anchor
from xbackend.report.tables import status
from xbackend.results.schema import Results
from xbackend.wording import counted, join

_WIDE = 0.10  # of the time: processes that are further apart than this make it doubtful
_FEW_NAMES = 4
NOT_MEASURED = "What was not measured, and why"
MORE_PROCESSES = f"measure with more of them (--processes 10); below {FEWEST} there is no interval at all"

READING = (
    ("Time", "of one execution: the geometric mean over fresh processes of each process's median."),
    (
        "Ratio",
        "a candidate's time divided by the baseline's, so below 1 is faster than the baseline. The interval holds the "
        "true ratio in 95 of 100 such comparisons.",
    ),
    (
        "Verdict",
        "faster or slower where the interval does not hold 1 and the ratio is beyond the noise floor, which is by how "
        "much a candidate differs from itself with the same parameters; no difference shown within the floor; else "
        "ambiguous. In parentheses: the smallest difference that would have been shown. A winner is called where it is "
        "faster than every other.",
    ),
    ("Spread", "the smallest and the largest median of a process, and of how many processes."),
    ("GFLOP/s", "10^9 operations per second, counted in the program before any backend simplifies it."),
    ("Relative error", "against a float64 oracle; one that is too large makes a candidate wrong."),
    ("Compile", "trace, lower and first call together."),
    (
        "Plots",
        "a dot is a process, the bar across the time, the line the 95 % interval of the time, which takes at least "
        f"{FEWEST} processes. Two such lines that overlap are no verdict: that is the ratio's.",
    ),
)


def reading() -> Block:
    """How to read the tables and plots."""
    return terms(READING)


def notices(results: Results) -> list[Block]:
    """What stands above all the rest: that the run is not whole."""
    if results.complete:
        return []
    planned = results.settings.processes
    counts = sorted({len(m.processes) for m in results.measurements if m.status == "ok"})
    had = f" Candidates have {join(map(str, counts))} processes" if counts else " No process finished"
    of = f"; {wording.value(planned)} each were planned." if planned is not None else "."
    return [
        Notice(
            (
                Bold("This run is incomplete."),
                " It was cut off, or was still being measured, before all that was planned was there. What follows is "
                f"of the processes that finished.{had}{of} Measure again before concluding from it.",
            )
        )
    ]


def sections(results: Results, comparisons: Sequence[Comparison]) -> list[Block]:
    """Who wins, by how much, how sure, on what."""
    if not results.measurements:
        return [paragraph("Nothing was compared: the results hold no measurement.")]
    return [
        paragraph(*headline(comparisons)),
        _winners(comparisons),
        bullets(*_sure(results, comparisons), *_on_what(results)),
    ]


def headline(comparisons: Sequence[Comparison]) -> list[Inline]:
    """The result in a sentence or two."""
    wins = Counter(_short(c.winner, c) for c in comparisons if c.winner is not None)
    total, undecided = len(comparisons), [c for c in comparisons if c.winner is None]
    parts: list[Inline] = []
    for name, count in wins.most_common():
        where = "" if total == 1 else f" in {count} of {total} comparisons"
        parts += ["; " if parts else "", Bold(name), f" is the fastest{where}"]
    if not wins:
        return ["No winner is shown", "" if total == 1 else f" in any of {total} comparisons", f": {_why(undecided)}."]
    if undecided:
        parts.append(f". No winner is shown in {len(undecided)} of {total}: {_why(undecided)}")
    return [*parts, "."]


def _why(comparisons: Sequence[Comparison]) -> str:
    """Why no winner is called in these comparisons."""
    reasons = Counter(_reason(g) for g in comparisons)
    return "; ".join(reason for reason, _ in reasons.most_common())


def _reason(comparison: Comparison) -> str:
    if not comparison.ranked:
        return "no candidate gave a time"
    if len(comparison.ranked) == 1:
        return "nothing else gave a time"
    if comparison.too_few:
        fewest = min(len(row.medians) for row in comparison.ranked)
        return f"there are candidates with only {counted(fewest, 'process', 'processes')}: {MORE_PROCESSES}"
    return "the fastest are not told apart"


def _short(row: Measured, comparison: Comparison) -> str:
    """The label, with the number of devices where it tells."""
    same = len({each.devices for each in comparison.rows}) == 1
    return row.label if same else row.name


def _winners(comparisons: Sequence[Comparison]) -> Block:
    headers = ("comparison", "fastest", "time", f"ratio to the next ({text.INTERVAL})", "ratio to the baseline")
    return table(headers, [_row(comparison) for comparison in comparisons], right=("time",))


def _row(comparison: Comparison) -> list[Inline]:
    if not comparison.ranked:
        return [comparison.label, "no candidate gave a time", *[text.NOTHING] * 3]
    first, following, baseline = comparison.ranked[0], text.NOTHING, text.NOTHING
    if comparison.against_first:
        other, against = comparison.against_first[0]
        following = _said(against, _short(other, comparison))
    if first is comparison.baseline:
        baseline = "it is the baseline"
    elif comparison.baseline is not None and (against_baseline := comparison.against_baseline(first)) is not None:
        baseline = _said(against_baseline, _short(comparison.baseline, comparison))
    winner = _undecided(comparison) if comparison.winner is None else Bold(_short(first, comparison))
    return [comparison.label, winner, text.time(first.time), following, baseline]


def _undecided(comparison: Comparison) -> str:
    """What is said where no winner is called."""
    first = _short(comparison.ranked[0], comparison)
    if len(comparison.ranked) == 1:
        return f"{first}, the only one that gave a time"
    if comparison.too_few:
        return f"not shown (smallest time: {first})"
    return f"not told apart: {_some([first, *(_short(rival, comparison) for rival in comparison.rivals)])}"


def _some(names: Sequence[str]) -> str:
    """Names as an enumeration, the last of many counted."""
    few = names if len(names) <= _FEW_NAMES else [*names[: _FEW_NAMES - 1], f"{len(names) - _FEW_NAMES + 1} more"]
    return join(few)


def _said(against: Ratio, than: str) -> str:
    return f"{text.ratio(against)} of {than}: {text.verdict(against)}"


def _sure(results: Results, comparisons: Sequence[Comparison]) -> list[list[Inline]]:
    """How sure that is."""
    counts = sorted({len(c.medians) for g in comparisons for c in g.ranked})
    said: list[list[Inline]] = []
    if counts:
        each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        of = f"{each} fresh {'process' if each == '1' else 'processes'} of each candidate"
        said.append([Bold("How sure"), f": 95 % intervals over {of}; {_floor(comparisons)}{_smallest(comparisons)}."])
    doubts = sum(len(notes(g)) for g in comparisons)
    if doubts:
        they = "stands below its table" if doubts == 1 else "stand below the tables"
        said.append([Bold("Doubts"), f": {counted(doubts, 'warning')} {they}."])
    said += [[Bold("Warning"), f": {warning}."] for warning in _warnings(results)]
    bad = Counter(f"{Measured(m).name} ({m.status})" for m in results.measurements if m.status != "ok")
    if bad:
        part = f": {bad.total()} of {counted(len(results.measurements), 'candidate')}, {_some(list(bad))}; "
        said.append([Bold("Not measured"), part, Hyperlink("why", f"#{anchor(NOT_MEASURED)}"), "."])
    return said


def _warnings(results: Results) -> list[str]:
    """What makes all of the run doubtful: as it was noted when it was measured, or else computed."""
    if results.settings.warnings is not None:
        return results.settings.warnings
    trend = drift(results)
    return [trend.warning] if trend is not None and trend.warning else []


def _floor(comparisons: Sequence[Comparison]) -> str:
    """The noise floors of the comparisons in words, and how well they are known."""
    known = sorted({c.floor for c in comparisons if c.floor.processes}, key=lambda floor: floor.factor)
    if not known:
        return "the noise floor is not known, as no candidate was measured against itself"
    percents = list(dict.fromkeys(text.percent(floor.factor) for floor in (known[0], known[-1])))
    ends = " to ".join(text.percent(end) for end in (min(f.low for f in known), max(f.high for f in known)))
    few_processes = min(floor.processes for floor in known)
    return (
        f"noise floor{'' if len(percents) == 1 else 's'} {' to '.join(percents)}, by which a candidate differs from "
        f"itself (known from {few_processes} processes to lie within {ends}): what is closer reads "
        f"\N{LEFT DOUBLE QUOTATION MARK}{Verdict.NO_DIFFERENCE}\N{RIGHT DOUBLE QUOTATION MARK}"
    )


def _smallest(comparisons: Sequence[Comparison]) -> str:
    """The smallest differences that comparisons with the baseline could have shown."""
    others = [(c, row) for c in comparisons for row in c.ranked if row is not c.baseline]
    ratios = [against for c, row in others if (against := c.against_baseline(row)) is not None]
    known = sorted(against.smallest for against in ratios if math.isfinite(against.smallest))
    if not known:
        return ""
    ends = " to ".join(dict.fromkeys(text.percent(factor) for factor in (known[0], known[-1])))
    return f"; the smallest difference from the baseline that could have been shown is {ends}"


def _on_what(results: Results) -> list[list[Inline]]:
    machine, settings = results.machine, results.settings
    accelerators = join(machine.accelerators) or "no accelerator"
    threads = settings.threads
    with_threads = f", {counted(threads, 'thread')} each" if threads is not None else ""
    versions = packages.by_package(results.measurements)
    used = ", ".join(f"{package} {join(each)}" for package, each in versions.items())
    return [
        [
            Bold("On"),
            f": {machine.processor}, {counted(machine.cores, 'core')}, "
            f"{text.size(machine.memory_bytes)} of memory, {accelerators}; {machine.system}{with_threads}.",
        ],
        [Bold("Versions"), f": {used}{'; ' if used else ''}xbackend {results.xbackend}."],
        [Bold("When"), f": {text.moment(results.created)}{f', run {results.run}' if results.run else ''}."],
    ]


def cautions(comparison: Comparison) -> list[Block]:
    """Why candidates gave no time, and what a reader should know before believing the others' numbers."""
    points: list[list[Inline]] = [
        [Bold(c.name), f": {status(c.measurement)}"] for c in comparison.rows if c.measurement.status != "ok"
    ]
    points += [[note] for note in notes(comparison)]
    return [bullets(*points)] if points else []


def notes(comparison: Comparison) -> list[str]:
    """The warnings of a comparison, those of the measurements and those that only all of them together give."""
    said = [f"{c.name}: {warning}" for c in comparison.rows for warning in c.measurement.warnings]
    wide = [c.name for c in comparison.ranked if _width(c) > _WIDE]
    if wide:
        said.append(
            f"The processes of {join(wide)} differ by more than 10 % of their time: "
            "measure on a quieter machine or with more processes."
        )
    counts = {len(c.medians) for c in comparison.ranked}
    if len(counts) > 1:
        few = [f"{c.name} ({len(c.medians)})" for c in comparison.ranked if len(c.medians) < max(counts)]
        said.append(f"Fewer processes than {max(counts)} gave a time: {join(few)}.")
    hashes = {c.measurement.parity.inputs for c in comparison.rows if c.measurement.parity is not None}
    if len(hashes) > 1:
        said.append("The candidates were not given the same inputs (their hashes differ): do not compare them.")
    without = [c.name for c in comparison.ranked if c.measurement.parity is None]
    if without:
        said.append(f"No comparison with the oracle was recorded for {join(without)}.")
    return said


def _width(row: Measured) -> float:
    """How far the processes are apart, as a part of the time."""
    low, high = row.spread or (0.0, 0.0)
    return (high - low) / row.time if row.time else 0.0
