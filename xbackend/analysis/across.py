"""Several workloads at once: a cell for each comparison and candidate, who wins where, and means of pairs over lines.

A cell has the ratio of `Comparison.ratio` and its verdict. Over workloads two candidates are compared by the geometric
mean of the ratios of their times (Fleming and Wallace, How Not to Lie with Statistics, Communications of the ACM 29
(1986) 218), over all comparisons in which both have one: the failure of a third excludes none of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.statistics import FEWEST, LEVEL, Ratio, student
from xbackend.interrupts import put_off
from xbackend.results.naming import GRADIENT
from xbackend.wording import grouped


@dataclass(frozen=True)
class MatrixCell:
    """A candidate in a comparison."""

    row: Row | None  #: `None` where it was not measured in it
    ratio: Ratio | None = None  #: to the reference of the matrix; `None` of that itself and without both times
    is_reference: bool = False
    slowdown: float | None = None  #: its time over the smallest one
    level: bool = False  #: it is not shown to be slower than the smallest one
    winner: bool = False  #: it is shown to be faster than every other


@dataclass(frozen=True)
class Mean:
    """The geometric mean of the ratios of two candidates' times, over the ``lines`` that both have.

    ``low`` and ``high`` are its interval at `LEVEL`, Student's on the logarithms of the lines' ratios, which covers
    further workloads like these; 0 to infinity below `FEWEST` workloads. ``shown``: the two are shown to differ, at the
    level of all pairs of the matrix together.
    """

    value: float
    low: float
    high: float
    lines: int
    shown: bool


@dataclass(frozen=True)
class Matrix:
    """``lines[i][j]`` is candidate ``columns[j]`` in ``comparisons[i]``."""

    comparisons: tuple[Comparison, ...]
    columns: tuple[str, ...]
    lines: tuple[tuple[MatrixCell, ...], ...]
    wins: tuple[int, ...]  #: of each candidate
    absent: tuple[int, ...]  #: its rows without a time
    #: of [j, k] the mean ratio of the times of j to those of k, if they share a line
    pairs: dict[tuple[int, int], Mean]
    order: tuple[int, ...]  #: the candidates with a time, by the number of others that take longer
    to_baseline: bool  #: ratios of cells are to the baseline that was asked for, else to the smallest time of the line

    def ahead(self, candidate: int) -> list[int]:
        """The others that are shown to be slower than a candidate, over their common lines."""
        return [k for (j, k), mean in self.pairs.items() if j == candidate and mean.shown and mean.value < 1]


def matrix(comparisons: Sequence[Comparison], to_baseline: bool = False) -> Matrix | None:
    """The matrix of several workloads; `None` of one, whose comparisons differ in parameters only."""
    if len({comparison.workload for comparison in comparisons}) < 2:
        return None
    several = len({row.devices for comparison in comparisons for row in comparison.rows}) > 1
    by_column = [{(row.name if several else row.label): row for row in c.rows} for c in comparisons]
    columns = tuple(dict.fromkeys(name for rows in by_column for name in rows))
    rows = [[each.get(name) for name in columns] for each in by_column]
    lines = tuple(_line(c, each, to_baseline) for c, each in zip(comparisons, rows, strict=True))
    of_each = [[line[j] for line in lines] for j in range(len(columns))]
    wins = tuple(sum(cell.winner for cell in cells) for cells in of_each)
    absent = tuple(sum(cell.row is not None and cell.row.time is None for cell in cells) for cells in of_each)
    families = [comparison.workload.removesuffix(GRADIENT) for comparison in comparisons]
    pairs = means([[_logarithm(cell) for cell in cells] for cells in of_each], families)
    there = [j for j, cells in enumerate(of_each) if any(_logarithm(cell) is not None for cell in cells)]
    faster = {j: sum(mean.value < 1 for (one, _), mean in pairs.items() if one == j) for j in there}
    order = tuple(sorted(there, key=lambda j: -faster[j]))
    return Matrix(tuple(comparisons), columns, lines, wins, absent, pairs, order, to_baseline)


def _line(comparison: Comparison, rows: Sequence[Row | None], to_baseline: bool) -> tuple[MatrixCell, ...]:
    first = comparison.ranked[0] if comparison.ranked else None
    other = comparison.baseline if to_baseline else first
    cells = []
    for row in rows:
        if row is None or row.time is None or first is None or first.time is None:
            cells.append(MatrixCell(row))
            continue
        level = row is first or row in comparison.rivals
        ratio = None if row is other else comparison.ratio(row, other)
        cells.append(MatrixCell(row, ratio, row is other, row.time / first.time, level, row is comparison.winner))
    return tuple(cells)


def means(times: Sequence[Sequence[float | None]], workloads: Sequence[str]) -> dict[tuple[int, int], Mean]:
    """The means of all pairs of candidates, either way round.

    Holm's step-down procedure decides which are shown (Scandinavian Journal of Statistics 6 (1979) 65): at most 1 -
    `LEVEL` of suites have a wrong one among all pairs.

    Args:
        times: of each candidate the logarithm of its time on each line; `None` where it has none.
        workloads: that of each line. Lines of one workload are alike, and no independent evidence.
    """
    found: dict[tuple[int, int], tuple[float, float, float, int]] = {}
    for (j, ours), (k, theirs) in combinations(enumerate(times), 2):
        lines = zip(ours, theirs, workloads, strict=True)
        if both := [(one - other, name) for one, other, name in lines if one is not None and other is not None]:
            found[j, k] = (*_estimate(both), len(both))
    tested = sorted((chance, pair) for pair, (_, margin, chance, _) in found.items() if margin < math.inf)
    shown: set[tuple[int, int]] = set()
    for rank, (chance, pair) in enumerate(tested):
        if chance > (1 - LEVEL) / (len(tested) - rank):
            break
        shown.add(pair)
    return {
        ends: Mean(math.exp(value), math.exp(value - margin), math.exp(value + margin), count, pair in shown)
        for pair, (mean, margin, _, count) in found.items()
        for ends, value in ((pair, mean), (pair[::-1], -mean))
    }


def _estimate(both: Sequence[tuple[float, str]]) -> tuple[float, float, float]:
    """The mean of logarithms of ratios, half the width of its interval, and the p-value of its being 0.

    The standard error is that of a mean of clusters (Cameron and Miller, A Practitioner's Guide to Cluster-Robust
    Inference, Journal of Human Resources 50 (2015) 317): the usual one where each line has a workload of its own.
    """
    with put_off():
        from scipy import stats

    value = fmean(ratio for ratio, _ in both)
    left = [sum(each) for each in grouped((workload, ratio - value) for ratio, workload in both).values()]
    degrees = len(left) - 1
    if degrees < FEWEST - 1:
        return value, math.inf, 1.0
    error = math.sqrt(len(left) / degrees * math.fsum(part**2 for part in left)) / len(both)
    chance = 2 * float(stats.t.sf(abs(value) / error, degrees)) if error else float(value == 0.0)
    return value, error * student(LEVEL, degrees), chance


def _logarithm(cell: MatrixCell) -> float | None:
    """The logarithm of its time; `None` without one."""
    return math.log(cell.row.time) if cell.row is not None and cell.row.time is not None else None
