"""Several workloads at once: a cell for each comparison and candidate, their geometric means, and who wins where.

A cell has the ratio of `comparison.compared` and its verdict. The mean over workloads is the geometric one, which does
not depend on what the ratios are to (Fleming and Wallace, How Not to Lie with Statistics, Communications of the ACM 29
(1986) 218), over those comparisons in which every candidate that has any time has one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from xbackend.analysis.comparison import Comparison, Row, compared
from xbackend.analysis.statistics import Ratio


@dataclass(frozen=True)
class Cell:
    """A candidate in a comparison: its row, `None` where it is not in it, and the ratio of its time to the one that the
    matrix compares with, `None` for that itself and where one of the two has no time.

    ``slowdown`` is its time over the smallest one; ``level`` whether it is not shown to be slower than that; ``winner``
    whether it is shown to be faster than every other.
    """

    row: Row | None
    ratio: Ratio | None = None
    is_reference: bool = False
    slowdown: float | None = None
    level: bool = False
    winner: bool = False


@dataclass(frozen=True)
class Matrix:
    """``lines[i][j]`` is candidate ``columns[j]`` in ``comparisons[i]``; ``means[j]`` the geometric mean of its ratios
    over ``common`` of the comparisons, `None` where it has no time in them, ``wins[j]`` in how many it is the winner.

    ``to_baseline``: ratios are to the baseline that was asked for; else each to the smallest time of its comparison.
    """

    comparisons: tuple[Comparison, ...]
    columns: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]
    means: tuple[float | None, ...]
    wins: tuple[int, ...]
    common: int
    to_baseline: bool


def matrix(comparisons: Sequence[Comparison], to_baseline: bool = False) -> Matrix | None:
    """The matrix of several workloads; `None` of one, whose comparisons differ in parameters only."""
    if len({comparison.workload for comparison in comparisons}) < 2:
        return None
    several = len({row.devices for comparison in comparisons for row in comparison.rows}) > 1
    by_column = [{(row.name if several else row.label): row for row in c.rows} for c in comparisons]
    columns = tuple(dict.fromkeys(name for rows in by_column for name in rows))
    lines = [
        _line(comparison, [rows.get(name) for name in columns], to_baseline)
        for comparison, rows in zip(comparisons, by_column, strict=True)
    ]
    means, common = _means(lines)
    wins = tuple(sum(line[j].winner for line in lines) for j in range(len(columns)))
    return Matrix(tuple(comparisons), columns, tuple(lines), means, wins, common, to_baseline)


def _line(comparison: Comparison, rows: Sequence[Row | None], to_baseline: bool) -> tuple[Cell, ...]:
    first = comparison.ranked[0] if comparison.ranked else None
    other = comparison.baseline if to_baseline else first
    rivals = {id(row) for row in comparison.rivals} if first is not None else set()
    cells = []
    for row in rows:
        if row is None or row.time is None or first is None or first.time is None:
            cells.append(Cell(row))
            continue
        level = row is first or id(row) in rivals
        ratio = None if row is other else compared(row, other, comparison.floor)
        cells.append(Cell(row, ratio, row is other, row.time / first.time, level, row is comparison.winner))
    return tuple(cells)


def _means(lines: Sequence[Sequence[Cell]]) -> tuple[tuple[float | None, ...], int]:
    """The geometric mean of each column over the lines in which all columns that have any value have one, and how many
    these are."""
    values = [[_value(cell) for cell in line] for line in lines]
    columns = list(zip(*values, strict=True))
    there = [j for j, column in enumerate(columns) if any(value is not None for value in column)]
    whole = [logs for line in values if None not in (logs := [line[j] for j in there])]
    means: list[float | None] = [None] * len(columns)
    if whole:
        for j, column in zip(there, zip(*whole, strict=True), strict=True):
            means[j] = math.exp(fmean(value for value in column if value is not None))
    return tuple(means), len(whole)


def _value(cell: Cell) -> float | None:
    """The logarithm of its ratio."""
    if cell.is_reference:
        return 0.0
    return math.log(cell.ratio.value) if cell.ratio is not None and math.isfinite(cell.ratio.value) else None
