"""The first paragraphs of a report, for somebody who reads no further: the answer, how sure it is, on what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from xbackend.analysis import packages
from xbackend.analysis.answer import answer, named
from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.statistics import FEWEST, Ratio, drift_warnings
from xbackend.drawing.graph import bytes_text
from xbackend.report.said import text
from xbackend.report.said.blocks import Block, Bold, Hyperlink, Inline, Paragraph, anchor, bullets, paragraph, table
from xbackend.report.said.doubts import doubts
from xbackend.results.schema import Results
from xbackend.wording import counted, few, join

NOT_MEASURED = "What was not measured, and why"
WARNINGS = "Warnings"

READING = (
    (
        "Time",
        "of one execution: the geometric mean over fresh processes of each process's median. Those that took turns are "
        "a generation; of a candidate that was not in all of them it is what it would be in their mean.",
    ),
    (
        "Ratio",
        "a candidate's time divided by the baseline's, so below 1 is faster than the baseline. The interval holds the "
        "true ratio in 95 of 100 such comparisons at least, and is as wide as the number of candidates that are near "
        "each other asks for.",
    ),
    (
        "Verdict",
        "faster or slower where the interval does not hold 1; equal where it lies within 5 %, and then within what; "
        "else not told apart, with the smallest difference that would have been shown. Of all comparisons of twenty "
        "such sessions one may hold a wrong verdict. A winner is called where it is faster than every other.",
    ),
    ("Spread", "the smallest and the largest median of a process, and of how many processes."),
    ("GFLOP/s", "10^9 operations per second, counted in the program before any backend simplifies it."),
    (
        "Error / passes",
        "the relative error against a float64 oracle, and the largest that passes; one beyond that is wrong.",
    ),
    (
        "Compile",
        "trace, lower and first call together, of the processes that compiled with an empty cache on disk. From "
        "cache: of those that found there what another process had compiled; without a number the framework leaves "
        "nothing there. With --quick an earlier session may have left it, and then no time without it is known.",
    ),
    (
        "Plots",
        "each backend has its own colour and mark. In the plots of times a dot is a process, the line the 95 % "
        f"interval of the time, which takes at least {FEWEST} processes; two such lines that overlap are no verdict: "
        "that is the ratio's. Where numbers of devices differ, the number stands above its mark; a stroke is "
        "the ideal: the time on one device over their number.",
    ),
)


def notices(results: Results) -> list[Block]:
    """What stands above all the rest: that the run is not whole."""
    if results.complete:
        return []
    planned = results.settings.processes
    counts = sorted({len(m.times) for m in results.measurements if m.status == "ok"})
    had = f" Candidates have {join(map(str, counts))} processes" if counts else " No process finished"
    of = f"; {planned} each were planned." if planned is not None else "."
    words = (
        " It was cut off, or was still being measured, before all that was planned was there. What follows is of the "
        f"processes that finished.{had}{of} Measure again before concluding from it."
    )
    return [Paragraph((Bold("This run is incomplete."), words), notice=True)]


def sections(results: Results, comparisons: Sequence[Comparison], picture: Sequence[Block] = ()) -> list[Block]:
    """The answer, the first ``picture``, who is the fastest of each comparison, how sure, on what."""
    if not results.measurements:
        return [paragraph(answer(comparisons))]
    headers = ("comparison", "fastest", "time", f"ratio to the next ({text.INTERVAL})", "ratio to the baseline")
    winners = table(headers, [_row(comparison) for comparison in comparisons], right=("time",))
    how = bullets(*_sure(results, comparisons), *_on_what(results))
    return [paragraph(answer(comparisons)), *picture, winners, how]


def _row(comparison: Comparison) -> list[Inline]:
    if not comparison.ranked:
        return [comparison.label, "no candidate gave a time", *[text.NOTHING] * 3]
    first, following, baseline = comparison.ranked[0], text.NOTHING, text.NOTHING
    if comparison.against_first:
        other, against = comparison.against_first[0]
        following = _said(against, named(other, comparison))
    if first is comparison.baseline:
        baseline = "it is the baseline"
    elif comparison.baseline is not None and (against_baseline := comparison.against_baseline(first)) is not None:
        baseline = _said(against_baseline, named(comparison.baseline, comparison))
    winner = _undecided(comparison) if comparison.winner is None else Bold(named(first, comparison))
    return [comparison.label, winner, text.time(first.time), following, baseline]


def _undecided(comparison: Comparison) -> str:
    first = named(comparison.ranked[0], comparison)
    if len(comparison.ranked) == 1:
        return f"{first}, the only one that gave a time"
    if comparison.too_few:
        return f"not shown (smallest time: {first})"
    return f"not told apart: {few([first, *(named(rival, comparison) for rival in comparison.rivals)])}"


def _said(against: Ratio, than: str) -> str:
    return f"{text.ratio(against)} of {than}: {text.verdict(against)}"


def _sure(results: Results, comparisons: Sequence[Comparison]) -> list[list[Inline]]:
    counts = sorted({len(c.times) for g in comparisons for c in g.ranked})
    said: list[list[Inline]] = []
    if counts:
        each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        of = f"{each} fresh {'process' if each == '1' else 'processes'} of each candidate"
        said.append([Bold("How sure"), f": 95 % intervals over {of}{_itself(comparisons)}{_smallest(comparisons)}."])
    causes = len(doubts(comparisons))
    if causes:
        said.append([Bold("Doubts"), ": ", Hyperlink(counted(causes, "warning"), f"#{anchor(WARNINGS)}"), "."])
    said += [[Bold("Warning"), f": {warning}."] for warning in _warnings(results)]
    bad = Counter(f"{Row(m).name} ({m.status})" for m in results.measurements if m.status != "ok")
    if bad:
        part = f": {bad.total()} of {counted(len(results.measurements), 'candidate')}, {few(list(bad))}; "
        said.append([Bold("Not measured"), part, Hyperlink("why", f"#{anchor(NOT_MEASURED)}"), "."])
    return said


def _warnings(results: Results) -> list[str]:
    """What makes all of the run doubtful: as it was noted when it was measured, or else computed."""
    if results.settings.warnings is not None:
        return results.settings.warnings
    return drift_warnings(results)


def _itself(comparisons: Sequence[Comparison]) -> str:
    """What the check of the machine against itself found: of several comparisons what is furthest from 1."""
    known = [(same, c) for c in comparisons if c.baseline is not None and (same := c.itself) is not None]
    if not known:
        return "; the baseline was not compared with itself, which takes four processes"
    same, where = max(known, key=lambda one: abs(math.log(one[0].value)))
    of = "" if len(known) == 1 else f" at most ({where.label}, of {len(known)})"
    name = named(where.baseline, where) if where.baseline is not None else ""
    return f"; {name} against itself, every second process over the others: {text.ratio(same)}{of}"


def _smallest(comparisons: Sequence[Comparison]) -> str:
    """What comparisons with the baseline could have shown where they show no difference."""
    between = text.smallest(c.against_baseline(row) for c in comparisons for row in c.ranked if row is not c.baseline)
    return between and f"; where no difference from the baseline is shown, the smallest that could be is {between}"


def _on_what(results: Results) -> list[list[Inline]]:
    machine, settings = results.machine, results.settings
    accelerators = join(machine.accelerators) or "no accelerator"
    threads = settings.threads
    of = "each" if settings.cores_per_device is None else "a device, each device simulated by as many cores"
    with_threads = f", {counted(threads, 'thread')} {of}" if threads is not None else ""
    versions = packages.by_package(results.measurements)
    used = ", ".join(f"{package} {join(each)}" for package, each in versions.items())
    memory = f"{bytes_text(machine.memory_bytes)} of memory"
    on = f"{machine.processor}, {counted(machine.cores, 'core')}, {memory}, {accelerators}; {machine.system}"
    when = text.moment(results.created) + (f", run {results.run}" if results.run else "")
    return [
        [Bold("On"), f": {on}{with_threads}."],
        [Bold("Versions"), f": {used}{'; ' if used else ''}xbackend {results.xbackend}."],
        [Bold("When"), f": {when}."],
    ]
