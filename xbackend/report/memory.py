"""How much memory a call takes on each backend."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.analysis.across import Matrix
from xbackend.analysis.comparison import Comparison, Row
from xbackend.drawing.graph import bytes_text
from xbackend.report import text
from xbackend.report.blocks import Block, Heading, bullets, paragraph, table, tabled
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
    """A table for each comparison with what was measured of each row, also beside the main memory; empty without
    any."""
    blocks: list[Block] = []
    for comparison in comparisons:
        rows = [[row.name, _call(row), _first(row), _devices(row)] for row in comparison.rows if row.memory is not None]
        if rows:
            blocks += [Heading(3, f"Memory: {comparison.label}"), *tabled(_HEADERS, rows, right=_HEADERS[1:3])]
    return [paragraph(READING), *blocks, *_absent(comparisons)] if blocks else []


def _call(row: Row | None) -> str:
    return text.NOTHING if row is None or row.memory is None else bytes_text(max(0, row.memory.call))


def _first(row: Row) -> str:
    return text.NOTHING if row.memory is None else bytes_text(max(0, row.memory.first_call))


def _devices(row: Row) -> str:
    there = row.memory.devices if row.memory is not None else {}
    return ", ".join(f"{plain(name)} {bytes_text(count)}" for name, count in there.items()) or text.NOTHING


def _absent(comparisons: Sequence[Comparison]) -> list[Block]:
    """Why nothing is known of some, each reason once."""
    why: dict[str, list[str]] = {}
    for row in (row for comparison in comparisons for row in comparison.rows if row.times and row.memory is None):
        reason = plain(row.measurement.memory_unknown) or "it was not measured"
        why.setdefault(reason, []).append(row.label)
    points = [
        (f"{few(list(dict.fromkeys(names)))} ({counted(len(names), 'row')}): {reason}.",)
        for reason, names in why.items()
    ]
    return [bullets(*points)] if points else []
