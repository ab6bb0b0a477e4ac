"""The whole report as blocks: which section stands where, and under which file names the plots lie."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.analysis.comparison import Comparison, comparisons
from xbackend.report import circumstances, ledger, placement, plots, summary, tables
from xbackend.report.blocks import Block, Contents, Heading, Image, paragraph
from xbackend.report.pictures import Pictures
from xbackend.results.schema import Results
from xbackend.wording import plain

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

_PLACEMENT = "What the program asked for, and what the backend says that it executed."


def build(results: Results, baseline: str | None) -> tuple[list[Block], Pictures]:
    """The blocks of a report and its pictures by file name. Raises `UsageError` for an unknown baseline."""
    compared = comparisons(results, baseline)
    pictures = Pictures()
    blocks: list[Block] = [
        Heading(1, plain(results.name) or "Comparison"),
        *summary.notices(results),
        Heading(2, "Summary"),
        *summary.sections(results, compared),
        Heading(2, "Contents"),
        Contents(),
        *_section(2, "How to read the tables", [summary.reading()] if compared else []),
    ]
    for number, comparison in enumerate(compared, 1):
        blocks += _comparison(number, comparison, pictures)
    missing = tables.not_ok(results.measurements)
    return [
        *blocks,
        *_section(2, "Time against size", _sizes(compared, pictures)),
        *_section(2, "One device against several: the ledger", ledger.sections(results, compared, pictures)),
        *_section(2, "Placement", placement.sections(compared, pictures), _PLACEMENT),
        *_section(2, summary.NOT_MEASURED, missing or [paragraph("Everything was measured.")]),
        *_section(2, "Versions, threads and BLAS", circumstances.environment(results)),
        *_section(2, "Machine", circumstances.machine(results)),
        *_section(2, "Settings", circumstances.settings(results)),
        *_section(2, "Noise floor", circumstances.pairs(results, compared)),
        *_section(2, "Order of the processes", circumstances.order(results)),
    ], pictures


def _section(level: int, title: str, blocks: Sequence[Block], introduction: str = "") -> list[Block]:
    """A section, or nothing where it would be empty."""
    said = [paragraph(introduction)] if introduction else []
    return [Heading(level, title), *said, *blocks] if blocks else []


def _comparison(number: int, comparison: Comparison, pictures: Pictures) -> list[Block]:
    baseline, note = comparison.baseline, comparison.baseline_note
    words = f"Baseline: {baseline.name} ({note})." if baseline else f"Baseline: none: {note}."
    blocks: list[Block] = [Heading(2, comparison.title), paragraph(words), tables.times(comparison)]
    blocks += summary.cautions(comparison)
    if comparison.ranked:
        title = f"Median times of {comparison.title}"
        file = pictures.add("medians", comparison.workload, plots.medians(comparison, title), number)
        blocks.append(Image(file, title))
    for title, part, introduction in (
        ("Phases", tables.phases(comparison), "Medians over the processes."),
        ("Parity", tables.parities(comparison), _PARITY),
        ("Checks of the timing", tables.checks(comparison), _CHECKS),
    ):
        blocks += _section(3, f"{title}: {comparison.label}", part, introduction)
    return blocks


def _sizes(compared: Sequence[Comparison], pictures: Pictures) -> list[Block]:
    """A plot of time against size for each workload that was measured at several sizes."""
    blocks: list[Block] = []
    for workload, series in plots.over_sizes(compared).items():
        title = f"Time against size: {workload}"
        file = pictures.add("sizes", series[0][1].workload, plots.sizes(series, title))
        words = f"{workload}. Time and size are logarithmic; error bars are 95 % intervals."
        blocks += [paragraph(words), Image(file, title)]
    return blocks
