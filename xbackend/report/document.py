"""The whole report as blocks: which section stands where, and under which file names the plots lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xbackend.analysis.across import Matrix, matrix
from xbackend.analysis.answer import devices_compared, of_how_many
from xbackend.analysis.comparison import Comparison, comparisons
from xbackend.report import (
    circumstances,
    doubts,
    ledger,
    matrix_picture,
    memory,
    payoffs,
    placement,
    plots,
    ranking,
    ratio_plots,
    summary,
    tables,
    text,
)
from xbackend.report import matrix as cells
from xbackend.report.blocks import Block, Contents, Folded, Heading, Image, OnPage, Pointer, paragraph, table, terms
from xbackend.report.pictures import Pictures
from xbackend.results.schema import Results
from xbackend.wording import plain

_PHASES = (
    "Medians over the processes; of trace, lower and first call over those that compiled with an empty cache on disk, "
    "as are the parts of lower: rewriting is that of the framework's graph, compiling all the rest; rewrites are "
    "variables of the graph that it put others in the place of."
)

_PARITY = (
    "Against the float64 oracle, the worst over the processes: the relative error, and the largest error of an element "
    "in units in the last place (ULP) of the output's dtype. Inputs: the beginning of their hash."
)

_CHECKS = (
    "The worst over the processes. A second wait after a round adds next to nothing (at most 5 %), so that what was "
    "timed is the work and not its launch; twice the work takes about twice as long (at least 1.5 times), so that it "
    "is done each time. The compilers named were watched, and compiled nothing in the timed rounds: a process in which "
    "one did gives no time."
)

_PLACEMENT = (
    "What the program asked for, and what the backend says that it executed. What differs on several devices is drawn; "
    "xbackend draw --backend draws the rest."
)


def build(results: Results, baseline: str | None) -> tuple[list[Block], Pictures]:
    """The blocks of a report and its pictures by file name. Raises `UsageError` for an unknown baseline."""
    compared = comparisons(results, baseline)
    found = doubts.doubts(compared)
    across = matrix(compared, baseline is not None)
    pictures = Pictures()
    blocks: list[Block] = [
        Heading(1, plain(results.name) or "Comparison"),
        *summary.notices(results),
        Heading(2, "Summary"),
        *summary.sections(results, compared, _first(compared, across, pictures)),
        Heading(2, "Contents"),
        Contents(),
    ]
    if across is not None:
        blocks += _section("First result, calls, and when a compiler has paid for itself", payoffs.across(compared))
        blocks += _section("Memory", memory.across(across))
    each = [_comparison(number, compared, pictures) for number in range(1, len(compared) + 1)]
    blocks += [block for part in each for block in part] if across is None else _left(compared, each)
    missing = tables.not_ok(compared)
    return [
        *blocks,
        *_section(summary.WARNINGS, doubts.listed(found, len(compared))),
        *_section("Speed against size", _sizes(compared, pictures)),
        *_section(summary.NOT_MEASURED, missing or [paragraph("Everything was measured.")]),
        *_section("Evidence", [Pointer("report.html"), *_evidence(results, compared, found, pictures)]),
    ], pictures


def _evidence(
    results: Results, compared: Sequence[Comparison], found: Sequence[doubts.Doubt], pictures: Pictures
) -> list[Block]:
    """What stands behind the numbers, each part folded; what is long is left to the page."""
    folded = [
        Folded("How to read the tables and plots", (terms(summary.READING),) if compared else ()),
        Folded("One device against several: why", tuple(ledger.sections(results, compared, pictures))),
        Folded("Placement: what was executed where", tuple(_placement(compared, pictures))),
    ]
    parts = (
        ("Ledger of transfers, idle and busy devices", ledger.figures(compared)),
        (
            "All figures of every row",
            [b for c in compared for b in (Heading(3, f"Figures: {c.label}"), tables.times(c))],
        ),
        ("Phases from the start of a process to the result", _each(compared, "Phases", tables.phases, _PHASES)),
        ("Parity with the oracle", _each(compared, "Parity", tables.parities, _PARITY)),
        ("First result and calls", payoffs.each(compared)),
        ("Memory of every row", memory.each(compared)),
        ("Checks of the timing", _each(compared, "Checks", tables.checks, _CHECKS)),
        ("Warnings row by row", doubts.row_by_row(found)),
        ("Versions, threads and BLAS", circumstances.environment(results)),
        ("Machine", circumstances.machine(results)),
        ("Settings", circumstances.settings(results)),
        ("Order of the processes", circumstances.order(results)),
    )
    left = [OnPage(title[0].lower() + title[1:], (Folded(title, tuple(part)),)) for title, part in parts if part]
    return [*folded, *left]


def _section(title: str, blocks: Sequence[Block]) -> list[Block]:
    """A section, or nothing where it would be empty."""
    return [Heading(2, title), *blocks] if blocks else []


def _each(
    compared: Sequence[Comparison], title: str, part: Callable[[Comparison], list[Block]], introduction: str
) -> list[Block]:
    """The same part of every comparison that has it."""
    there = [(comparison, blocks) for comparison in compared if (blocks := part(comparison))]
    each = [block for comparison, blocks in there for block in (Heading(3, f"{title}: {comparison.label}"), *blocks)]
    return [paragraph(introduction), *each] if each else []


def _first(compared: Sequence[Comparison], across: Matrix | None, pictures: Pictures) -> list[Block]:
    """The answer to the question that was asked, drawn; nothing where no two rows can be compared. Of several workloads
    their matrix, drawn and as a table."""
    if across is not None:
        title = f"{of_how_many(compared)}: times over {'the baseline' if across.to_baseline else 'the smallest'}"
        file = pictures.add("matrix", "workloads", matrix_picture.picture(across, title))
        words = paragraph(matrix_picture.reading(across)), paragraph(cells.reading(across))
        blocks: list[Block] = [Image(file, title), words[0], cells.as_table(across), words[1], *_means(across)]
        if not devices_compared(compared):
            return blocks
        return [*_first(compared, None, pictures), *blocks]
    drawn = ratio_plots.ratios(compared)
    if drawn is None:
        return []
    title = f"{drawn.axis.capitalize()}, with {text.INTERVAL}s"
    file = pictures.add("ratios", compared[0].workload, ratio_plots.picture(drawn, title))
    return [Image(file, title), paragraph(ratio_plots.reading(drawn))]


def _means(across: Matrix) -> list[Block]:
    """What all lines together say of pairs."""
    headers, rows = cells.means(across)
    if not rows:
        return []
    every = OnPage("the mean of every pair over all lines", tuple(cells.pairs(across)))
    return [paragraph(cells.READING_MEANS), table(headers, rows, right=headers[2:]), every]


def _comparison(number: int, compared: Sequence[Comparison], pictures: Pictures) -> list[Block]:
    """A comparison by its number from 1. Of several the times of the processes are drawn on the page only."""
    comparison = compared[number - 1]
    baseline, note = comparison.baseline, comparison.baseline_note
    words = f"Baseline: {baseline.name} ({note})." if baseline else f"Baseline: none: {note}."
    blocks: list[Block] = [Heading(2, comparison.title), paragraph(words), ranking.ranking(comparison)]
    if comparison.ranked:
        title = f"Times of {comparison.title}"
        file = pictures.add("medians", comparison.workload, plots.medians(comparison, title), number)
        drawn = Image(file, title)
        blocks.append(drawn if len(compared) == 1 else OnPage("the times of each process, drawn", (drawn,)))
    return blocks


def _left(compared: Sequence[Comparison], each: Sequence[Sequence[Block]]) -> list[Block]:
    """The comparisons of several workloads, each behind its title, on the page: the matrix stands for them."""
    parts = [Folded(c.title, tuple(blocks[1:])) for c, blocks in zip(compared, each, strict=True)]
    return [OnPage("each comparison by itself", (Heading(2, "Each comparison"), *parts))]


def _placement(compared: Sequence[Comparison], pictures: Pictures) -> list[Block]:
    parts = placement.sections(compared, pictures)
    return [paragraph(_PLACEMENT), *parts] if parts else []


def _sizes(compared: Sequence[Comparison], pictures: Pictures) -> list[Block]:
    """A plot for each workload that was measured at several sizes, and from which size several devices pay."""
    blocks: list[Block] = []
    for workload, series in plots.over_sizes(compared).items():
        title = f"Speed against size: {workload}"
        file = pictures.add("sizes", series[0][1].workload, plots.sizes(series, title))
        words = (
            f"{workload}. Both axes are logarithmic; error bars are 95 % intervals; the grey lines are the others. "
            "Where numbers of devices differ, the number stands at the end of its line, and the fewest are dashed."
        )
        blocks += [paragraph(words), Image(file, title)]
    return [*blocks, *ledger.sizes(compared)]
