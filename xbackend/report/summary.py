"""The first paragraphs of a report, in words, for somebody who reads no further."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xbackend.measure.results import Results
from xbackend.measure.scaling import ENOUGH_PROCESSES
from xbackend.report import text
from xbackend.report.blocks import Block, Bold, Bullets, Inline, paragraph
from xbackend.report.candidates import Candidate, Group

# MEASUREMENT.md, rule 12.
_WIDE = 0.10

READING = (
    "Median: the median over fresh processes of each process's median time of one execution. "
    "Ratio: a candidate's median time divided by the baseline's median time, so below 1 is faster than the baseline. "
    "Spread: the smallest and the largest median of a process, and of how many processes. "
    "GFLOP/s: 10^9 operations per second, counted in the program before any backend simplifies it. "
    "Parity: the relative error against a float64 oracle and the largest that passes. "
    "Compile: trace, lower and first call together. "
    "In the plots a dot is a process and the bar across is the median."
)


def sections(results: Results, groups: Sequence[Group]) -> list[Block]:
    """What was compared, on what, and what came out."""
    if not results.measurements:
        return [paragraph("Nothing was compared: the results hold no measurement.")]
    return [
        paragraph(_compared(results, groups)),
        paragraph(_machine(results)),
        Bullets(tuple(_outcome(group) for group in groups)),
    ]


def _compared(results: Results, groups: Sequence[Group]) -> str:
    backends = list(dict.fromkeys(text.plain(m.backend) for m in results.measurements))
    devices = sorted({m.devices for m in results.measurements})
    workloads = list(dict.fromkeys(text.plain(g.workload) for g in groups))
    gave = sum(c.usable for g in groups for c in g.candidates)
    total = len(results.measurements)
    sentences = [
        f"Compared: {text.counted(len(backends), 'backend')} ({', '.join(backends)})",
        f" on {text.join(map(str, devices))} {'device' if devices == [1] else 'devices'},",
        f" {'workload' if len(workloads) == 1 else 'workloads'} {text.join(workloads)}",
        f" with {text.counted(len(groups), 'set')} of parameters.",
        f" {gave} of {text.counted(total, 'candidate')} gave a time",
        "." if gave == total else "; each of the others is a row with its reason.",
    ]
    return "".join(sentences)


def _machine(results: Results) -> str:
    machine = results.machine
    accelerators = text.join(map(text.plain, machine.accelerators)) or "no accelerator"
    return (
        f"On: {text.plain(machine.processor)}, {text.counted(machine.cores, 'core')}, "
        f"{text.size(machine.memory_bytes)} of memory, {accelerators}; {text.plain(machine.system)}. "
        f"Measured {text.plain(results.created)} with xbackend {text.plain(results.xbackend)}."
    )


def _outcome(group: Group) -> tuple[Inline, ...]:
    if not group.ranked:
        return (Bold(group.title), ": no candidate gave a time.")
    first = group.ranked[0]
    unit = text.time_unit([first.median])
    ratio = first.ratio(group.baseline)
    beside = ""
    if group.baseline is not None and first is not group.baseline:
        beside = f", {text.number(ratio)} of the time of {group.baseline.name}"
    return (
        Bold(group.title),
        ": ",
        Bold(first.name),
        f" had the smallest median, {text.time(first.median, unit)}{beside}. ",
        verdict(group),
    )


def verdict(group: Group) -> str:
    """What may be concluded from the medians of a group: a winner, or why none is called."""
    if len(group.ranked) < 2:
        return "Nothing else gave a time, so there is no winner."
    first, *others = group.ranked
    fewest = min(len(c.medians) for c in group.ranked)
    if fewest < ENOUGH_PROCESSES:
        return (
            f"No winner is called: there are candidates with only {text.counted(fewest, 'process', 'processes')}, and "
            f"below {ENOUGH_PROCESSES} the spread between processes is unknown."
        )
    reached = [c for c in others if not _apart(first, c)]
    if reached:
        return (
            "No winner is called: the spread of its processes overlaps with that of "
            f"{text.join(c.name for c in reached)}."
        )
    return (
        f"Each of its processes was faster than every process of the others ({fewest} or more processes each); "
        "no test of significance was made."
    )


def _apart(first: Candidate, other: Candidate) -> bool:
    """Whether every process of the first was faster than every one of the other; not so where a time is no number."""
    known = all(map(math.isfinite, (*first.medians, *other.medians)))
    return known and max(first.medians) < min(other.medians)


def cautions(group: Group) -> list[Block]:
    """What a reader should know before believing the numbers of a group."""
    notes = [f"{c.name}: {text.plain(warning)}" for c in group.candidates for warning in c.measurement.warnings]
    wide = [c.name for c in group.ranked if _width(c) > _WIDE]
    if wide:
        notes.append(
            f"The processes of {text.join(wide)} differ by more than 10 % of their median: "
            "measure on a quieter machine or with more processes."
        )
    hashes = {c.measurement.parity.inputs for c in group.candidates if c.measurement.parity is not None}
    if len(hashes) > 1:
        notes.append("The candidates were not given the same inputs (their hashes differ): do not compare them.")
    without = [c.name for c in group.ranked if c.measurement.parity is None]
    if without:
        notes.append(f"No comparison with the oracle was recorded for {text.join(without)}.")
    return [Bullets(tuple((note,) for note in notes))] if notes else []


def _width(candidate: Candidate) -> float:
    middle, spread = candidate.median, candidate.spread
    if not middle or spread is None or not all(map(math.isfinite, spread)):
        return math.inf
    return (spread[1] - spread[0]) / middle
