"""The first paragraphs of a report, for somebody who reads no further: who wins, by how much, how sure, on what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from xbackend import wording
from xbackend.analysis.statistics import FEWEST, Ratio, Verdict, drift
from xbackend.report import text, versions
from xbackend.report.blocks import Block, Bold, Hyperlink, Inline, Notice, Table, bullets, paragraph, table, terms
from xbackend.report.candidates import LEVEL, Candidate, Group
from xbackend.report.headings import anchor
from xbackend.report.tables import status
from xbackend.results.schema import Results
from xbackend.wording import counted, join, plain

# MEASUREMENT.md, rule 12.
_WIDE = 0.10
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
    planned = results.settings.get("processes")
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


def sections(results: Results, groups: Sequence[Group]) -> list[Block]:
    """Who wins, by how much, how sure, on what."""
    if not results.measurements:
        return [paragraph("Nothing was compared: the results hold no measurement.")]
    return [
        paragraph(*headline(groups)),
        _winners(groups),
        bullets(*_sure(results, groups), *_on_what(results)),
    ]


def headline(groups: Sequence[Group]) -> list[Inline]:
    """The result in a sentence or two."""
    wins = Counter(_short(g.ranked[0], g) for g in groups if winner(g) is not None)
    total, open_ones = len(groups), [g for g in groups if winner(g) is None]
    parts: list[Inline] = []
    for name, count in wins.most_common():
        where = "" if total == 1 else f" in {count} of {total} comparisons"
        parts += ["; " if parts else "", Bold(name), f" is the fastest{where}"]
    if not wins:
        return ["No winner is shown", "" if total == 1 else f" in any of {total} comparisons", f": {_why(open_ones)}."]
    if open_ones:
        parts.append(f". No winner is shown in {len(open_ones)} of {total}: {_why(open_ones)}")
    return [*parts, "."]


def winner(group: Group) -> Candidate | None:
    """The candidate that is shown to be faster than every other one; `None` if there is none."""
    return group.ranked[0] if len(group.ranked) > 1 and not group.rivals else None


def _why(groups: Sequence[Group]) -> str:
    """Why no winner is called in these groups."""
    reasons = Counter(_reason(g) for g in groups)
    return "; ".join(reason for reason, _ in reasons.most_common())


def _reason(group: Group) -> str:
    if not group.ranked:
        return "no candidate gave a time"
    if len(group.ranked) == 1:
        return "nothing else gave a time"
    if any(found is None or found.verdict is Verdict.UNKNOWN for _, found in group.against_first):
        fewest = min(len(c.medians) for c in group.ranked)
        return f"there are candidates with only {counted(fewest, 'process', 'processes')}: {MORE_PROCESSES}"
    return "the fastest are not told apart"


def _short(candidate: Candidate, group: Group) -> str:
    """The label, with the number of devices where it tells."""
    same = len({c.measurement.devices for c in group.candidates}) == 1
    return candidate.label if same else candidate.name


def _winners(groups: Sequence[Group]) -> Table:
    headers = ("comparison", "fastest", "time", f"ratio to the next ({LEVEL})", "ratio to the baseline")
    return table(headers, [_row(group) for group in groups], right=("time",))


def _row(group: Group) -> list[Inline]:
    if not group.ranked:
        return [group.label, "no candidate gave a time", *[text.NOTHING] * 3]
    first = group.ranked[0]
    unit = text.time_unit([first.time])
    following = text.NOTHING
    if group.against_first:
        other, found = group.against_first[0]
        following = _said(found, _short(other, group))
    baseline = text.NOTHING
    if first is group.baseline:
        baseline = "it is the baseline"
    elif group.baseline is not None:
        baseline = _said(group.against_baseline(first), _short(group.baseline, group))
    found_one = winner(group) is not None
    return [
        group.label,
        Bold(_short(first, group)) if found_one else _open(group),
        text.time(first.time, unit),
        following,
        baseline,
    ]


def _open(group: Group) -> str:
    """What is said where no winner is called."""
    first, rivals = group.ranked[0], group.rivals
    if len(group.ranked) == 1:
        return f"{_short(first, group)}, the only one that gave a time"
    if any(found is None or found.verdict is Verdict.UNKNOWN for _, found in group.against_first):
        return f"not shown (smallest time: {_short(first, group)})"
    named = [_short(c, group) for c in (first, *rivals)]
    return f"not told apart: {_some(named)}"


def _some(names: Sequence[str]) -> str:
    """Names as an enumeration, the last of many counted."""
    few = names if len(names) <= _FEW_NAMES else [*names[: _FEW_NAMES - 1], f"{len(names) - _FEW_NAMES + 1} more"]
    return join(few)


def _said(found: Ratio | None, than: str) -> str:
    return text.NOTHING if found is None else f"{text.ratio(found)} of {than}: {text.verdict(found)}"


def _sure(results: Results, groups: Sequence[Group]) -> list[list[Inline]]:
    """How sure that is."""
    counts = sorted({len(c.medians) for g in groups for c in g.ranked})
    said: list[list[Inline]] = []
    if counts:
        each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        of = f"{each} fresh {'process' if each == '1' else 'processes'} of each candidate"
        said.append([Bold("How sure"), f": 95 % intervals over {of}; {_floor(groups)}{_smallest(groups)}."])
    doubts = sum(len(notes(g)) for g in groups)
    if doubts:
        they = "stands below its table" if doubts == 1 else "stand below the tables"
        said.append([Bold("Doubts"), f": {counted(doubts, 'warning')} {they}."])
    said += [[Bold("Warning"), f": {plain(warning)}."] for warning in _warnings(results)]
    bad = Counter(f"{Candidate(m).name} ({plain(m.status)})" for m in results.measurements if m.status != "ok")
    if bad:
        part = f": {bad.total()} of {counted(len(results.measurements), 'candidate')}, {_some(list(bad))}; "
        said.append([Bold("Not measured"), part, Hyperlink("why", f"#{anchor(NOT_MEASURED)}"), "."])
    return said


def _warnings(results: Results) -> list[str]:
    """What makes all of the run doubtful: as it was noted when it was measured, or else computed."""
    noted = results.settings.get("warnings")
    if isinstance(noted, list):
        return [str(warning) for warning in noted]
    found = drift(results)
    return [found.warning] if found is not None and found.warning else []


def _floor(groups: Sequence[Group]) -> str:
    """The noise floors of the comparisons in words, and how well they are known."""
    known = sorted({g.floor for g in groups if g.floor.processes}, key=lambda floor: floor.factor)
    if not known:
        return "the noise floor is not known, as no candidate was measured against itself"
    few, many = known[0], known[-1]
    percents = list(dict.fromkeys(text.percent(floor.factor) for floor in (few, many)))
    ends = " to ".join(text.percent(end) for end in (min(f.low for f in known), max(f.high for f in known)))
    few_processes = min(floor.processes for floor in known)
    return (
        f"noise floor{'' if len(percents) == 1 else 's'} {' to '.join(percents)}, by which a candidate differs from "
        f"itself (known from {few_processes} processes to lie within {ends}): what is closer reads "
        f"\N{LEFT DOUBLE QUOTATION MARK}{Verdict.NO_DIFFERENCE}\N{RIGHT DOUBLE QUOTATION MARK}"
    )


def _smallest(groups: Sequence[Group]) -> str:
    """The smallest differences that comparisons with the baseline could have shown."""
    found = [r.smallest for g in groups for c in g.ranked if c is not g.baseline and (r := g.against_baseline(c))]
    known = sorted(factor for factor in found if math.isfinite(factor))
    if not known:
        return ""
    ends = " to ".join(dict.fromkeys(text.percent(factor) for factor in (known[0], known[-1])))
    return f"; the smallest difference from the baseline that could have been shown is {ends}"


def _on_what(results: Results) -> list[list[Inline]]:
    machine, settings = results.machine, results.settings
    accelerators = join(map(plain, machine.accelerators)) or "no accelerator"
    threads = settings.get("threads")
    with_threads = f", {text.threads(threads)} each" if threads is not None else ""
    packages = versions.by_package(results.measurements)
    used = ", ".join(f"{package} {join(found)}" for package, found in packages.items())
    return [
        [
            Bold("On"),
            f": {plain(machine.processor)}, {counted(machine.cores, 'core')}, "
            f"{text.size(machine.memory_bytes)} of memory, {accelerators}; {plain(machine.system)}{with_threads}.",
        ],
        [Bold("Versions"), f": {used}{'; ' if used else ''}xbackend {plain(results.xbackend)}."],
        [Bold("When"), f": {text.moment(results.created)}{_run(results)}."],
    ]


def _run(results: Results) -> str:
    return f", run {plain(results.run)}" if results.run else ""


def cautions(group: Group) -> list[Block]:
    """Why candidates of a group gave no time, and what a reader should know before believing the others' numbers."""
    found: list[list[Inline]] = [
        [Bold(c.name), f": {status(c.measurement)}"] for c in group.candidates if c.measurement.status != "ok"
    ]
    found += [[note] for note in notes(group)]
    return [bullets(*found)] if found else []


def notes(group: Group) -> list[str]:
    """The warnings of a group, those of the measurements and those that only all of them together give."""
    found = [f"{c.name}: {plain(warning)}" for c in group.candidates for warning in c.measurement.warnings]
    wide = [c.name for c in group.ranked if _width(c) > _WIDE]
    if wide:
        found.append(
            f"The processes of {join(wide)} differ by more than 10 % of their time: "
            "measure on a quieter machine or with more processes."
        )
    counts = {len(c.medians) for c in group.ranked}
    if len(counts) > 1:
        few = [f"{c.name} ({len(c.medians)})" for c in group.ranked if len(c.medians) < max(counts)]
        found.append(f"Fewer processes than {max(counts)} gave a time: {join(few)}.")
    hashes = {c.measurement.parity.inputs for c in group.candidates if c.measurement.parity is not None}
    if len(hashes) > 1:
        found.append("The candidates were not given the same inputs (their hashes differ): do not compare them.")
    without = [c.name for c in group.ranked if c.measurement.parity is None]
    if without:
        found.append(f"No comparison with the oracle was recorded for {join(without)}.")
    return found


def _width(candidate: Candidate) -> float:
    middle, spread = candidate.time, candidate.spread
    if not middle or spread is None or not all(map(math.isfinite, spread)):
        return math.inf
    return (spread[1] - spread[0]) / middle
