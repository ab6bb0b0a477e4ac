"""The matrix of several workloads in words, and the means of pairs over them."""

from __future__ import annotations

from itertools import combinations

from xbackend.analysis.across import Matrix, MatrixCell, Mean
from xbackend.analysis.statistics import SAME, Verdict
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Bold, Inline, records, table

_MARKS = {Verdict.NOT_TOLD_APART: "~", Verdict.EQUAL: "=", Verdict.UNKNOWN: "?"}
_WINNER = "*"
_MEANING = f"* shown to be the fastest; ~ not told apart; = equal within {100 * SAME:g} %; ? too few processes"
READING_MEANS = (
    "Over all lines: the geometric mean of the ratios of two times over the lines that both have, with Student's "
    "interval of this pair over their workloads. Lines without a time are counted beside it and no part of it. * and "
    "the numbers of others that are slower and faster: shown of all pairs together (Holm). The first one takes less "
    "time than most others."
)


def reading(matrix: Matrix) -> str:
    """The meaning of the numbers and the marks."""
    to = "that of the baseline" if matrix.to_baseline else "the smallest one of its line"
    return f"Times over {to}. {_MEANING}; without a mark the two are shown to differ."


def cell(one: MatrixCell) -> tuple[str, str]:
    """A ratio, or why there is none, and its mark."""
    if one.row is None:
        return text.NOTHING, ""
    if one.slowdown is None:
        status = one.row.measurement.status
        return text.NOTHING if status == "ok" else status, ""
    if one.is_reference or one.ratio is None:
        return "1" if one.is_reference else text.NOTHING, _WINNER * one.winner
    return text.number(one.ratio.value), _WINNER if one.winner else _MARKS.get(one.ratio.verdict, "")


def lines(matrix: Matrix) -> list[tuple[str, list[tuple[str, str]]]]:
    """Each line with its label and its cells, as `cell` says them; below them the sums of the columns."""
    labels = [comparison.label for comparison in matrix.comparisons]
    sums = {"fastest on": matrix.wins, **({"no time on": matrix.absent} if any(matrix.absent) else {})}
    each = zip(labels, ([cell(one) for one in line] for line in matrix.lines), strict=True)
    return [*each, *((title, [(str(count), "") for count in counts]) for title, counts in sums.items())]


def means(matrix: Matrix) -> list[dict[str, str]]:
    """The means over all lines, a row for each candidate; none of less than two."""
    first, *others = matrix.order or (0,)
    rows = []
    for j in matrix.order if others else ():
        mean = matrix.pairs.get((j, first))
        over = ("1" if j == first else text.NOTHING) if mean is None else _over(mean)
        slower = sum(j in matrix.ahead(k) for k in matrix.order)
        row = {"over all lines": matrix.columns[j], f"time over {matrix.columns[first]}'s ({text.INTERVAL})": over}
        lines, absent = mean.lines if mean else len(matrix.comparisons) - matrix.absent[j], matrix.absent[j]
        counts = {"lines": lines, "no time on": absent, "faster than": len(matrix.ahead(j)), "slower than": slower}
        rows.append(row | {name: str(count) for name, count in counts.items()})
    return rows


def pairs(matrix: Matrix) -> list[AnyBlock]:
    """The mean of every pair, one way round."""
    rows = []
    for j, k in (pair for pair in combinations(matrix.order, 2) if pair in matrix.pairs):
        names, mean = {"candidate": matrix.columns[j], "over": matrix.columns[k]}, matrix.pairs[j, k]
        rows.append(names | {f"geometric mean ({text.INTERVAL})": _over(mean), "lines": str(mean.lines)})
    return records(rows, right=("lines",))


def _over(mean: Mean) -> str:
    return text.ratio(mean) + " *" * mean.shown


def as_table(matrix: Matrix) -> AnyBlock:
    """A table with all columns."""
    rows: list[list[Inline]] = []
    for label, cells in lines(matrix):
        shown = [(" ".join(filter(None, one)), one[1] == _WINNER) for one in cells]
        rows.append([label, *(Bold(words) if wins else words for words, wins in shown)])
    return table(("workload", *matrix.columns), rows, right=matrix.columns)
