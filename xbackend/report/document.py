"""The whole report as blocks: which section stands where, and under which file names the plots lie."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.report import circumstances, ledger, placement, plots, summary, tables
from xbackend.report.blocks import Block, Contents, Heading, Image, Table, paragraph
from xbackend.report.candidates import Group, groups
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


def build(results: Results, baseline: str | None) -> tuple[list[Block], Pictures]:
    """The blocks of a report and its pictures by file name. Raises `UsageError` for an unknown baseline."""
    found = groups(results, baseline)
    pictures = Pictures()
    blocks: list[Block] = [
        Heading(1, plain(results.name) or "Comparison"),
        *summary.notices(results),
        Heading(2, "Summary"),
        *summary.sections(results, found),
        Heading(2, "Contents"),
        Contents(),
    ]
    if found:
        blocks += [Heading(2, "How to read the tables"), summary.reading()]
    for number, group in enumerate(found, 1):
        blocks += _group(number, group, pictures)
    blocks += _sizes(found, pictures)
    blocks += ledger.sections(results, found, pictures)
    blocks += _placements(found, pictures)
    blocks += _section(
        "One device against several, today and as published",
        circumstances.published(found),
        "Speed-up: the time on one device divided by the time on all devices, so above 1 is a gain. The published "
        "programs differ from today's in size, transfers, synchronisation and in what the clock included.",
    )
    missing = tables.not_ok(results.measurements)
    blocks += [Heading(2, summary.NOT_MEASURED), missing or paragraph("Everything was measured.")]
    blocks += _section("Versions, threads and BLAS", _maybe(circumstances.environment(results)))
    blocks += [Heading(2, "Machine"), circumstances.machine(results)]
    blocks += _section("Settings", _maybe(circumstances.settings(results)))
    blocks += _section("Noise floor", circumstances.pairs(results, found))
    blocks += [Heading(2, "Order of the processes"), *circumstances.order(results)]
    return blocks, pictures


def _section(title: str, blocks: Sequence[Block], introduction: str = "") -> list[Block]:
    """A section, or nothing where it would be empty."""
    if not blocks:
        return []
    return [Heading(2, title), *([paragraph(introduction)] if introduction else []), *blocks]


def _maybe(block: Table | None) -> list[Block]:
    return [] if block is None else [block]


def _group(number: int, group: Group, pictures: Pictures) -> list[Block]:
    baseline = f"{group.baseline.name} ({group.baseline_note})" if group.baseline else f"none: {group.baseline_note}"
    blocks: list[Block] = [Heading(2, group.title), paragraph(f"Baseline: {baseline}."), tables.comparison(group)]
    blocks += summary.cautions(group)
    if plots.shown(group):
        title = f"Median times of {group.title}"
        file = pictures.add("medians", group.workload, plots.medians(group, title), number)
        blocks.append(Image(file, title))
    ledger = tables.phases(group)
    if ledger is not None:
        blocks += [Heading(3, f"Phases: {group.label}"), paragraph("Medians over the processes."), ledger]
    parity = tables.parities(group)
    if parity is not None:
        blocks += [Heading(3, f"Parity: {group.label}"), paragraph(_PARITY), parity]
    checks = tables.checks(group)
    if checks is not None:
        blocks += [Heading(3, f"Checks of the timing: {group.label}"), paragraph(_CHECKS), checks]
    return blocks


def _sizes(found: Sequence[Group], pictures: Pictures) -> list[Block]:
    """A plot of time against size for each workload that was measured at several sizes."""
    blocks: list[Block] = []
    for series in plots.over_sizes(found):
        title = f"Time against size: {series.title}"
        file = pictures.add("sizes", series.workload, plots.sizes(series, title))
        words = f"{series.title}. Time and size are logarithmic; error bars are 95 % intervals."
        blocks += [paragraph(words), Image(file, title)]
    return _section("Time against size", blocks)


def _placements(found: Sequence[Group], pictures: Pictures) -> list[Block]:
    blocks: list[Block] = []
    drawn: placement.Drawn = {}
    for group in found:
        part = placement.sections(group, pictures, drawn)
        if part:
            blocks += [Heading(3, f"Placement: {group.label}"), *part]
    introduction = "What the program asked for, and what the backend says that it executed."
    return _section("Placement", blocks, introduction)
