"""The report of a comparison as blocks: which section stands where, and under which file names the plots lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xbackend.analysis.across import Matrix, matrix
from xbackend.analysis.answer import devices_compared, of_how_many
from xbackend.analysis.comparison import Comparison, comparisons
from xbackend.report.drawn import across as drawn_across
from xbackend.report.drawn import ratios, timelines, times
from xbackend.report.said import across, circumstances, doubts, ledger, payoffs, placement, summary, tables, text
from xbackend.report.said import blocks as b
from xbackend.results.schema import Results
from xbackend.wording import plain

_PHASES = (
    "Medians over the processes; of trace, lower and first call over those that compiled with an empty cache on disk. "
    "The parts of lower: rewriting the framework's graph, and compiling, which is all the rest; rewrites are variables "
    "of the graph that others took the place of."
)
_PARITY = (
    "The worst over the processes, against the float64 oracle: the relative error, and the largest error of an element "
    "in units in the last place (ULP) of the output's dtype. Inputs: the beginning of their hash."
)
_CHECKS = (
    "The worst over the processes. A second wait after a round adds at most 5 %: what was timed is the work, not its "
    "launch. Twice the work takes at least 1.5 times as long: it is done each time. The compilers named were watched, "
    "and compiled nothing in the timed rounds; a process in which one did gives no time."
)
_SIZES = (
    "Both axes are logarithmic, error bars are 95 % intervals, the grey lines are the others. Where numbers of devices "
    "differ, the number stands at the end of its line, and the fewest are dashed."
)


def build(results: Results, baseline: str | None = None) -> tuple[list[b.AnyBlock], b.Pictures]:
    """The blocks of a report and its pictures by file name. Raises `UsageError` for an unknown baseline."""
    asked, compared = baseline is not None, comparisons(results, baseline)
    found, whole, pictures = doubts.doubts(compared), matrix(compared, asked), b.Pictures()
    blocks: list[b.AnyBlock] = [
        b.Heading(1, plain(results.name) or "Comparison"),
        *summary.notices(results),
        b.Heading(2, "Summary"),
        *summary.sections(results, compared, first(compared, whole, pictures)),
        b.Heading(2, "Contents"),
        b.Contents(),
    ]
    each = [(c.title, _comparison(c, asked, len(compared) == 1, pictures)) for c in compared]
    if whole is None:
        blocks += [block for title, part in each for block in (b.Heading(2, title), *part)]
    else:
        # The matrix stands for the comparisons, each of which is behind its title on the page.
        folded = [b.Folded(title, part) for title, part in each]
        blocks += b.section("First result, calls, and when a compiler has paid for itself", payoffs.across(compared))
        blocks += b.section("Memory", tables.memory_across(whole))
        blocks.append(b.OnPage("each comparison by itself", (b.Heading(2, "Each comparison"), *folded)))
    missing = tables.not_ok(compared) or [b.paragraph("Everything was measured.")]
    return [
        *blocks,
        *b.section(summary.WARNINGS, doubts.listed(found, len(compared))),
        *b.section("Speed against size", _sizes(compared, pictures)),
        *b.section(summary.NOT_MEASURED, missing),
        *b.section("Evidence", [b.Pointer("report.html"), *_evidence(results, compared, found, pictures)]),
    ], pictures


def _evidence(
    results: Results, compared: Sequence[Comparison], found: Sequence[doubts.Doubt], pictures: b.Pictures
) -> list[b.AnyBlock]:
    """The evidence behind the numbers, each part folded; long parts are left to the page."""

    def each(title: str, part: Callable[[Comparison], list[b.AnyBlock]], introduction: str = "") -> list[b.AnyBlock]:
        there = [block for c in compared for block in b.section(f"{title}: {c.label}", part(c), level=3)]
        return [b.paragraph(introduction), *there] if there and introduction else there

    cores, title = results.machine.cores, "One device against several"
    why = each(title, lambda comparison: ledger.why(comparison, cores, pictures))
    why += [b.OnPage(ledger.TIMELINES, (b.paragraph(timelines.READING),))] if why else []
    memory = each("Memory", tables.memory, tables.MEMORY)
    parts = {
        "Ledger of transfers, idle and busy devices": each("Ledger", ledger.figures, ledger.READING),
        "All figures of every row": each("Figures", lambda c: b.records(tables.figures(c), words=tables.WORDS)),
        "Phases from the start of a process to the result": each("Phases", tables.phases, _PHASES),
        "Parity with the oracle": each("Parity", tables.parities, _PARITY),
        "First result and calls": each("First result and calls", payoffs.each, payoffs.READING),
        "Memory of every row": memory and [*memory, *tables.memory_unknown(compared)],
        "Checks of the timing": each("Checks", tables.checks, _CHECKS),
        "Warnings row by row": doubts.row_by_row(found),
        "Versions, threads and BLAS": circumstances.environment(results),
        "Machine": circumstances.machine(results),
        "Settings": circumstances.settings(results),
        "Order of the processes": circumstances.order(results),
    }
    return [
        b.Folded("How to read the tables and plots", (b.terms(summary.READING),) if compared else ()),
        b.Folded(f"{title}: why", why),
        b.Folded("Placement: what was executed where", placement.sections(compared, pictures)),
        *(b.OnPage(name[0].lower() + name[1:], (b.Folded(name, part),)) for name, part in parts.items() if part),
    ]


def first(compared: Sequence[Comparison], whole: Matrix | None, pictures: b.Pictures) -> list[b.AnyBlock]:
    """The answer, drawn, where two rows can be compared; of several workloads their matrix, drawn and as a table."""
    blocks: list[b.AnyBlock] = []
    if whole is not None:
        title = f"{of_how_many(compared)}: times over {'the baseline' if whole.to_baseline else 'the smallest'}"
        image = pictures.add("matrix", "workloads", drawn_across.picture(whole, title), title)
        drawn, table = b.paragraph(drawn_across.READING), across.as_table(whole)
        blocks = [image, drawn, table, b.paragraph(across.reading(whole))]
        if means := across.means(whole):
            every = b.OnPage("the mean of every pair over all lines", across.pairs(whole))
            blocks += [b.paragraph(across.READING_MEANS), *b.records(means, right=[*means[0]][2:]), every]
        if not devices_compared(compared):
            return blocks
    if (found := ratios.ratios(compared)) is not None:
        title = f"{found.axis.capitalize()}, with {text.INTERVAL}s"
        image = pictures.add("ratios", compared[0].workload, ratios.picture(found, title), title)
        blocks = [image, b.paragraph(ratios.reading(found)), *blocks]
    return blocks


def _comparison(comparison: Comparison, asked: bool, alone: bool, pictures: b.Pictures) -> list[b.AnyBlock]:
    """A comparison. Where it is not ``alone`` the times of its processes are drawn on the page only."""
    baseline, note = comparison.baseline, comparison.baseline_note
    words = f"Baseline: {baseline.name} ({note})." if baseline else f"Baseline: none: {note}."
    blocks = [b.paragraph(words), *tables.ranking(comparison, asked)]
    if comparison.ranked:
        image = times_of(comparison, pictures)
        blocks.append(image if alone else b.OnPage("the times of each process, drawn", (image,)))
    return blocks


def times_of(comparison: Comparison, pictures: b.Pictures) -> b.Image:
    """The times of each process, drawn; one row at least must have one."""
    title = f"Times of {comparison.title}"
    return pictures.add("medians", comparison.workload, times.medians(comparison, title), title)


def _sizes(compared: Sequence[Comparison], pictures: b.Pictures) -> list[b.AnyBlock]:
    blocks: list[b.AnyBlock] = []
    for workload, series in times.over_sizes(compared).items():
        title = f"Speed against size: {workload}"
        image = pictures.add("sizes", series[0][1].workload, times.sizes(series, title), title)
        blocks += [b.paragraph(f"{workload}. {_SIZES}"), image]
    return [*blocks, *ledger.sizes(compared)]
