"""The first paragraphs of a report, for somebody who reads no further: the answer, how sure it is, on what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from xbackend.analysis import packages
from xbackend.analysis.answer import answer, named
from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.statistics import FEWEST
from xbackend.drawing.graph import bytes_text
from xbackend.report.said import doubts, text
from xbackend.report.said.blocks import AnyBlock, Bold, Hyperlink, Inline, anchor, notice, paragraph, points, records
from xbackend.results.schema import Results
from xbackend.wording import counted, few, grouped, join

_NEXT, _BASELINE = f"ratio to the next ({text.INTERVAL})", "ratio to the baseline"
NOT_MEASURED = "What was not measured, and why"
WARNINGS = "Warnings"

READING = {
    "Time": "of one execution: the geometric mean over processes of each one's median. Processes that took turns are a "
    "generation; the time of a candidate that was not in all of them is what it would be in their mean.",
    "Ratio": "a candidate's time over the baseline's: below 1 is faster. The interval holds the true ratio in 95 of "
    "100 such comparisons at least; it is the wider, the more candidates are near each other.",
    "Verdict": "faster or slower where the interval does not hold 1; equal where it lies within 5 %, and then within "
    "what; else not told apart, with the smallest difference that would have been shown. One of twenty such sessions "
    "may hold a wrong verdict. A winner is faster than every other.",
    "Spread": "the smallest and the largest median of a process, and the number of processes.",
    "GFLOP/s": "10^9 operations per second, counted in the program before any backend simplifies it.",
    "Error / passes": "the relative error against a float64 oracle, and the largest that passes.",
    "Compile": "trace, lower and first call together, of processes that compiled with an empty cache on disk. From "
    "cache: of those that found there what another had compiled; without a number the framework leaves nothing there. "
    "With --quick an earlier session may have left it, and then no time without it is known.",
    "Plots": "each backend has its own colour and mark. A dot is a process, a line the 95 % interval of the time, of "
    f"{FEWEST} processes at least. Two such lines that overlap are no verdict: that is the ratio's. A number of "
    "devices stands above its mark; a stroke is the ideal, the time on one device over their number.",
}


def notices(results: Results) -> list[AnyBlock]:
    """The notice above all the rest: that the run is incomplete."""
    if results.complete:
        return []
    planned = results.settings.processes
    counts = sorted({len(m.times) for m in results.measurements if m.status == "ok"})
    had = f"Candidates have {join(map(str, counts))} processes" if counts else "No process finished"
    of = f"; {planned} each were planned." if planned is not None else "."
    words = (
        "It was cut off, or was still being measured, before all that was planned was there. What follows is of the "
        f"processes that finished. {had}{of} Measure again before concluding from it."
    )
    return [notice("This run is incomplete.", words)]


def sections(results: Results, comparisons: Sequence[Comparison], picture: Sequence[AnyBlock] = ()) -> list[AnyBlock]:
    """The answer, the first ``picture``, who is the fastest of each comparison, how sure, on what."""
    if not results.measurements:
        return [paragraph(answer(comparisons))]
    winners = records([_row(comparison) for comparison in comparisons], right=("time",))
    return [paragraph(answer(comparisons)), *picture, *winners, *points([*_sure(results, comparisons), *_on(results)])]


def _row(comparison: Comparison) -> dict[str, Inline]:
    row: dict[str, Inline] = {"comparison": comparison.label, "fastest": "no candidate gave a time"}
    row |= dict.fromkeys(("time", _NEXT, _BASELINE), text.NOTHING)
    if comparison.ranked:
        first, *others = comparison.ranked
        winner = _undecided(comparison) if comparison.winner is None else Bold(named(first, comparison))
        row |= {"fastest": winner, "time": text.time(first.time)}
        for beside, other in ((_NEXT, others[0] if others else None), (_BASELINE, comparison.baseline)):
            if other is not None and (ratio := comparison.ratio(first, other)) is not None:
                row[beside] = f"{text.ratio(ratio)} of {named(other, comparison)}: {text.verdict(ratio)}"
        if first is comparison.baseline:
            row[_BASELINE] = "it is the baseline"
    return row


def _undecided(comparison: Comparison) -> str:
    first, *rivals = (named(row, comparison) for row in (comparison.ranked[0], *comparison.rivals))
    if len(comparison.ranked) == 1:
        return f"{first}, the only one that gave a time"
    return f"not shown (smallest time: {first})" if comparison.too_few else f"not told apart: {few([first, *rivals])}"


def _sure(results: Results, comparisons: Sequence[Comparison]) -> list[list[Inline]]:
    said: list[list[Inline]] = []
    if counts := sorted({len(c.times) for g in comparisons for c in g.ranked}):
        each = " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
        of = f"{each} fresh {'process' if each == '1' else 'processes'} of each candidate"
        said.append([Bold("How sure"), f": 95 % intervals over {of}{_itself(comparisons)}{_smallest(comparisons)}."])
    if causes := len(doubts.doubts(comparisons)):
        said.append([Bold("Doubts"), ": ", Hyperlink(counted(causes, "warning"), f"#{anchor(WARNINGS)}"), "."])
    said += [[Bold("Warning"), f": {warning}."] for warning in results.settings.warnings or []]
    bad = Counter(f"{Row(m).name} ({m.status})" for m in results.measurements if m.status != "ok")
    if bad:
        part = f": {bad.total()} of {counted(len(results.measurements), 'candidate')}, {few(list(bad))}; "
        said.append([Bold("Not measured"), part, Hyperlink("why", f"#{anchor(NOT_MEASURED)}"), "."])
    return said


def _itself(comparisons: Sequence[Comparison]) -> str:
    """The result of the check of the machine against itself: of several comparisons, the one furthest from 1."""
    known = [(same, c.baseline, c) for c in comparisons if c.baseline and (same := c.itself) is not None]
    if not known:
        return "; the baseline was not compared with itself, which takes four processes"
    same, baseline, where = max(known, key=lambda one: abs(math.log(one[0].value)))
    of, name = "" if len(known) == 1 else f" at most ({where.label}, of {len(known)})", named(baseline, where)
    return f"; {name} against itself, every second process over the others: {text.ratio(same)}{of}"


def _smallest(comparisons: Sequence[Comparison]) -> str:
    between = text.smallest(c.ratio(row, c.baseline) for c in comparisons for row in c.ranked if row is not c.baseline)
    return between and f"; where no difference from the baseline is shown, the smallest that could be is {between}"


def _on(results: Results) -> list[list[Inline]]:
    machine, settings = results.machine, results.settings
    each = "each" if settings.cores_per_device is None else "a device, each device simulated by as many cores"
    threads = f", {counted(settings.threads, 'thread')} {each}" if settings.threads is not None else ""
    memory, accelerators = f"{bytes_text(machine.memory_bytes)} of memory", join(machine.accelerators)
    on = [machine.processor, counted(machine.cores, "core"), memory, accelerators or "no accelerator"]
    versions = grouped(of for m in results.measurements for of in packages.frameworks(m).items())
    used = [f"{package} {join(dict.fromkeys(different))}" for package, different in versions.items()]
    when = text.moment(results.created) + (f", run {results.run}" if results.run else "")
    said = {
        "On": f"{', '.join(on)}; {machine.system}{threads}",
        "Versions": "; ".join(filter(None, (", ".join(used), f"xbackend {results.xbackend}"))),
        "When": when,
    }
    return [[Bold(what), f": {words}."] for what, words in said.items()]
