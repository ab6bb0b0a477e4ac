"""The whole report as blocks: which section stands where, and under which file names the plots lie."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.analysis.across import Matrix, matrix
from xbackend.analysis.answer import devices_compared, of_how_many
from xbackend.analysis.comparison import Comparison, comparisons
from xbackend.report.drawn import across as matrix_picture
from xbackend.report.drawn import ratios as ratio_plots
from xbackend.report.drawn import times as plots
from xbackend.report.said import across as cells
from xbackend.report.said import blocks as b
from xbackend.report.said import circumstances, doubts, ledger, memory, payoffs, placement, summary, tables, text
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


def build(results: Results, baseline: str | None) -> tuple[list[b.Block], b.Pictures]:
    """The blocks of a report and its pictures by file name. Raises `UsageError` for an unknown baseline."""
    compared = comparisons(results, baseline)
    found = doubts.doubts(compared)
    across = matrix(compared, baseline is not None)
    pictures = b.Pictures()
    blocks: list[b.Block] = [
        b.Heading(1, plain(results.name) or "Comparison"),
        *summary.notices(results),
        b.Heading(2, "Summary"),
        *summary.sections(results, compared, _first(compared, across, pictures)),
        b.Heading(2, "Contents"),
        b.Contents(),
    ]
    if across is not None:
        blocks += b.section("First result, calls, and when a compiler has paid for itself", payoffs.across(compared))
        blocks += b.section("Memory", memory.across(across))
    each = [_comparison(number, compared, pictures) for number in range(1, len(compared) + 1)]
    blocks += [block for part in each for block in part] if across is None else _left(compared, each)
    missing = tables.not_ok(compared)
    return [
        *blocks,
        *b.section(summary.WARNINGS, doubts.listed(found, len(compared))),
        *b.section("Speed against size", _sizes(compared, pictures)),
        *b.section(summary.NOT_MEASURED, missing or [b.paragraph("Everything was measured.")]),
        *b.section("Evidence", [b.Pointer("report.html"), *_evidence(results, compared, found, pictures)]),
    ], pictures


def _evidence(
    results: Results, compared: Sequence[Comparison], found: Sequence[doubts.Doubt], pictures: b.Pictures
) -> list[b.Block]:
    """What stands behind the numbers, each part folded; what is long is left to the page."""
    folded = [
        b.Folded("How to read the tables and plots", (b.terms(summary.READING),) if compared else ()),
        b.Folded("One device against several: why", tuple(ledger.sections(results, compared, pictures))),
        b.Folded("Placement: what was executed where", tuple(placement.sections(compared, pictures))),
    ]
    parts = (
        ("Ledger of transfers, idle and busy devices", ledger.figures(compared)),
        ("All figures of every row", tables.each(compared, "Figures", tables.figures)),
        ("Phases from the start of a process to the result", tables.each(compared, "Phases", tables.phases, _PHASES)),
        ("Parity with the oracle", tables.each(compared, "Parity", tables.parities, _PARITY)),
        ("First result and calls", payoffs.each(compared)),
        ("Memory of every row", memory.each(compared)),
        ("Checks of the timing", tables.each(compared, "Checks", tables.checks, _CHECKS)),
        ("Warnings row by row", doubts.row_by_row(found)),
        ("Versions, threads and BLAS", circumstances.environment(results)),
        ("Machine", circumstances.machine(results)),
        ("Settings", circumstances.settings(results)),
        ("Order of the processes", circumstances.order(results)),
    )
    left = [b.OnPage(title[0].lower() + title[1:], (b.Folded(title, tuple(part)),)) for title, part in parts if part]
    return [*folded, *left]


def _first(compared: Sequence[Comparison], across: Matrix | None, pictures: b.Pictures) -> list[b.Block]:
    """The answer, drawn, where two rows can be compared; of several workloads their matrix, drawn and as a table."""
    blocks: list[b.Block] = []
    if across is not None:
        title = f"{of_how_many(compared)}: times over {'the baseline' if across.to_baseline else 'the smallest'}"
        image = pictures.add("matrix", "workloads", matrix_picture.picture(across, title), title)
        words = b.paragraph(matrix_picture.reading(across)), b.paragraph(cells.reading(across))
        blocks = [image, words[0], cells.as_table(across), words[1], *_means(across)]
        if not devices_compared(compared):
            return blocks
    drawn = ratio_plots.ratios(compared)
    if drawn is not None:
        title = f"{drawn.axis.capitalize()}, with {text.INTERVAL}s"
        image = pictures.add("ratios", compared[0].workload, ratio_plots.picture(drawn, title), title)
        blocks = [image, b.paragraph(ratio_plots.reading(drawn)), *blocks]
    return blocks


def _means(across: Matrix) -> list[b.Block]:
    headers, rows = cells.means(across)
    every = b.OnPage("the mean of every pair over all lines", tuple(cells.pairs(across)))
    return [b.paragraph(cells.READING_MEANS), b.table(headers, rows, right=headers[2:]), every] if rows else []


def _comparison(number: int, compared: Sequence[Comparison], pictures: b.Pictures) -> list[b.Block]:
    """A comparison by its number from 1. Of several the times of the processes are drawn on the page only."""
    comparison = compared[number - 1]
    baseline, note = comparison.baseline, comparison.baseline_note
    words = f"Baseline: {baseline.name} ({note})." if baseline else f"Baseline: none: {note}."
    blocks: list[b.Block] = [b.Heading(2, comparison.title), b.paragraph(words), tables.ranking(comparison)]
    if comparison.ranked:
        title = f"Times of {comparison.title}"
        drawn = pictures.add("medians", comparison.workload, plots.medians(comparison, title), title, number=number)
        blocks.append(drawn if len(compared) == 1 else b.OnPage("the times of each process, drawn", (drawn,)))
    return blocks


def _left(compared: Sequence[Comparison], each: Sequence[Sequence[b.Block]]) -> list[b.Block]:
    """The comparisons of several workloads, each behind its title, on the page: the matrix stands for them."""
    parts = [b.Folded(c.title, tuple(blocks[1:])) for c, blocks in zip(compared, each, strict=True)]
    return [b.OnPage("each comparison by itself", (b.Heading(2, "Each comparison"), *parts))]


def _sizes(compared: Sequence[Comparison], pictures: b.Pictures) -> list[b.Block]:
    """A plot for each workload that was measured at several sizes, and from which size several devices pay."""
    blocks: list[b.Block] = []
    for workload, series in plots.over_sizes(compared).items():
        title = f"Speed against size: {workload}"
        words = (
            f"{workload}. Both axes are logarithmic; error bars are 95 % intervals; the grey lines are the others. "
            "Where numbers of devices differ, the number stands at the end of its line, and the fewest are dashed."
        )
        drawn = plots.sizes(series, title)
        blocks += [b.paragraph(words), pictures.add("sizes", series[0][1].workload, drawn, title)]
    return [*blocks, *ledger.sizes(compared)]
