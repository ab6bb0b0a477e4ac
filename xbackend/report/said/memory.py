"""How much memory a call takes on each backend."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.analysis.across import Matrix
from xbackend.analysis.comparison import Comparison, Row
from xbackend.drawing.graph import bytes_text
from xbackend.report.said import tables, text
from xbackend.report.said.blocks import Block, paragraph, points, table, tabled
from xbackend.wording import counted, few, plain

READING = (
    "The largest resident set of the process during a call once it is compiled, over that before its inputs were "
    "there: inputs, results, what lives between, and what compiling left behind. Medians over the processes."
)
_HEADERS = ("backend", "a call", "the first call, with compiling", "devices, as the framework tells")


def across(matrix: Matrix) -> list[Block]:
    """A line for each comparison, a column for each candidate; empty where no memory was measured."""
    rows = [
        [comparison.label, *(_call(one.row) for one in line)]
        for comparison, line in zip(matrix.comparisons, matrix.lines, strict=True)
    ]
    if all(set(cells) <= {text.NOTHING} for _, *cells in rows):
        return []
    blocks: list[Block] = [paragraph(READING), table(("workload", *matrix.columns), rows, right=matrix.columns)]
    return [*blocks, *_absent(matrix.comparisons)]


def each(comparisons: Sequence[Comparison]) -> list[Block]:
    """A table for each comparison with what was measured of each row, on devices too; empty without any."""
    there = tables.each(comparisons, "Memory", _table, READING)
    return [*there, *_absent(comparisons)] if there else []


def _table(comparison: Comparison) -> list[Block]:
    rows = []
    for row, memory in ((row, row.memory) for row in comparison.rows):
        if memory is not None:
            devices = ", ".join(f"{plain(name)} {bytes_text(count)}" for name, count in memory.devices.items())
            first = bytes_text(max(0, memory.first_call))
            rows.append([row.name, _call(row), first, devices or text.NOTHING])
    return tabled(_HEADERS, rows, right=_HEADERS[1:3])


def _call(row: Row | None) -> str:
    return text.NOTHING if row is None or row.memory is None else bytes_text(max(0, row.memory.call))


def _absent(comparisons: Sequence[Comparison]) -> list[Block]:
    """Why nothing is known of some, each reason once."""
    why: dict[str, list[str]] = {}
    for row in (row for comparison in comparisons for row in comparison.rows if row.times and row.memory is None):
        reason = plain(row.measurement.memory_unknown) or "it was not measured"
        why.setdefault(reason, []).append(row.label)
    return points(
        (f"{few(list(dict.fromkeys(names)))} ({counted(len(names), 'row')}): {reason}.",)
        for reason, names in why.items()
    )
