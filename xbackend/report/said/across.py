"""The matrix of several workloads as text, for a terminal and for a table, and the means of pairs over them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from xbackend.analysis.across import Cell, Matrix, Mean
from xbackend.analysis.statistics import SAME, Verdict
from xbackend.report.said import text
from xbackend.report.said.blocks import Block, Bold, Inline, table, tabled
from xbackend.report.written import columns
from xbackend.wording import plain

_MARKS = {Verdict.NOT_TOLD_APART: "~", Verdict.EQUAL: "=", Verdict.UNKNOWN: "?"}
_WINNER = "*"
_MEANING = (
    ("*", "shown to be the fastest"),
    ("~", "not told apart"),
    ("=", f"equal within {100 * SAME:g} %"),
    ("?", "too few processes"),
)
_COUNTS = ("lines", "no time on", "faster than", "slower than")
READING_MEANS = (
    "Over all lines: the geometric mean of the ratios of two times, over the lines that both have, with Student's "
    "interval of this pair over their workloads. Lines without a time are counted beside it and no part of it. * and "
    "the numbers of others that one is faster and slower than: shown of all pairs together (Holm). The first one takes "
    "less time than most others."
)
_GAP, _HEAD, _LONGEST = 2, 10, 20  # characters: between columns, of a line of a name above one, at most


def reading(matrix: Matrix) -> str:
    """What a number and a mark mean."""
    to = "that of the baseline" if matrix.to_baseline else "the smallest one of its line"
    marks = "; ".join(f"{mark} {words}" for mark, words in _MEANING)
    return f"Times over {to}. {marks}; without a mark the two are shown to differ."


def cell(one: Cell) -> tuple[str, str]:
    """A ratio, or why there is none, and its mark."""
    if one.row is None:
        return text.NOTHING, ""
    if one.slowdown is None:
        status = one.row.measurement.status
        return text.NOTHING if status == "ok" else status, ""
    if one.is_reference or one.ratio is None:
        return "1" if one.is_reference else text.NOTHING, _WINNER * one.winner
    return text.number(one.ratio.value), _WINNER if one.winner else _MARKS.get(one.ratio.verdict, "")


def below(matrix: Matrix) -> list[tuple[str, list[str]]]:
    """The lines that sum the others up, each with its title."""
    found = [("fastest on", matrix.wins), *([("no time on", matrix.absent)] if any(matrix.absent) else [])]
    return [(title, list(map(str, counts))) for title, counts in found]


def means(matrix: Matrix) -> tuple[list[str], list[list[str]]]:
    """The headers and the rows of what all lines say together, a candidate each; none of less than two."""
    first, *others = matrix.order or (0,)
    headers = ["over all lines", f"time over {matrix.columns[first]}'s ({text.INTERVAL})", *_COUNTS]
    rows = []
    for j in matrix.order if others else ():
        mean = matrix.pairs.get((j, first))
        over = ("1" if j == first else text.NOTHING) if mean is None else _over(mean)
        slower = sum(j in matrix.ahead(k) for k in matrix.order)
        counts = [mean.lines if mean else len(matrix.comparisons) - matrix.absent[j], matrix.absent[j]]
        rows.append([matrix.columns[j], over, *map(str, [*counts, len(matrix.ahead(j)), slower])])
    return headers, rows


def pairs(matrix: Matrix) -> list[Block]:
    """The mean of every pair, one way round."""
    headers = ("candidate", "over", f"geometric mean ({text.INTERVAL})", "lines")
    ordered = [(j, k) for at, j in enumerate(matrix.order) for k in matrix.order[at + 1 :] if (j, k) in matrix.pairs]
    rows = [
        [matrix.columns[j], matrix.columns[k], _over(mean), str(mean.lines)]
        for j, k in ordered
        for mean in [matrix.pairs[j, k]]
    ]
    return tabled(headers, rows, right=("lines",))


def _over(mean: Mean) -> str:
    return text.sure(mean.value, mean.low, mean.high) + " *" * mean.shown


def as_table(matrix: Matrix) -> Block:
    """A table with all columns."""
    rows: list[list[Inline]] = []
    for comparison, line in zip(matrix.comparisons, matrix.lines, strict=True):
        cells = [" ".join(filter(None, cell(one))) for one in line]
        stressed = [Bold(words) if one.winner else words for one, words in zip(line, cells, strict=True)]
        rows.append([comparison.label, *stressed])
    rows += [[title, *cells] for title, cells in below(matrix)]
    return table(("workload", *matrix.columns), rows, right=matrix.columns)


def lines(matrix: Matrix, width: int) -> list[str]:
    """As many columns beside each other as ``width`` has room for, the others below, each time all workloads."""
    shown = [[cell(one) for one in line] for line in matrix.lines]
    shown += [[(words, "") for words in counts] for _, counts in below(matrix)]
    marked = [any(mark for _, mark in column) for column in zip(*shown, strict=True)]
    # Numbers stand below each other, whatever their marks.
    cells = [[words + (mark or " " * marked[j]) for j, (words, mark) in enumerate(line)] for line in shown]
    heads = ["\n".join(_head(column)) for column in matrix.columns]
    widths = [max(map(len, [*heads[j].split("\n"), *column])) for j, column in enumerate(zip(*cells, strict=True))]
    titles = [*_titled(matrix, max(width // 2 - 2, _HEAD)), *(("", title) for title, _ in below(matrix))]
    labels = [(group, "  " * bool(group) + label) for group, label in titles]
    found: list[str] = []
    for band in _bands(widths, width - max(len("workload"), *(len(label) for _, label in labels))):
        rows = [(group, [label, *(line[j] for j in band)]) for (group, label), line in zip(labels, cells, strict=True)]
        groups = [(group, [row for _, row in each]) for group, each in groupby(rows, key=lambda row: row[0])]
        found += [""] if found else []
        found += columns.lines(["workload", *(heads[j] for j in band)], groups, width, right=heads)
    return found


def _titled(matrix: Matrix, most: int) -> list[tuple[str, str]]:
    """The workload that several lines are below, and what tells such a line; of one line no title."""
    names = [plain(comparison.workload) for comparison in matrix.comparisons]
    labels = [comparison.label for comparison in matrix.comparisons]
    if len(set(names)) == len(names):
        return [("", text.shorten(label, most)) for label in labels]
    pairs = [(n, label.removeprefix(n).strip() or "as it is") for n, label in zip(names, labels, strict=True)]
    return [(text.shorten(n, 2 * most), text.shorten(label, most)) for n, label in pairs]


def _head(column: str) -> list[str]:
    parts = [""]
    for part in re.split(r"(?=[-\[( ])", column):
        if parts[-1] and len(parts[-1]) + len(part) > _HEAD:
            parts.append("")
        parts[-1] += part
    return [text.shorten(part.strip(), _LONGEST) for part in parts]


def _bands(widths: Sequence[int], room: int) -> list[list[int]]:
    """The columns that stand beside each other: one at least, and as many as there is room for."""
    bands: list[list[int]] = []
    for j, width in enumerate(widths):
        if not bands or sum(_GAP + widths[i] for i in bands[-1]) + _GAP + width > room:
            bands.append([])
        bands[-1].append(j)
    return bands
