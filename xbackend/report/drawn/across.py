"""The matrix of several workloads as a picture: a cell near the smallest time of its line has a strong colour.

The fills are of one hue, in steps that are told apart in grey. The words on them stand out, also on a dark page.
"""

from __future__ import annotations

import math
from typing import Any

from xbackend.analysis.across import Matrix, MatrixCell
from xbackend.drawing.graph import GREY, INK, SHADES
from xbackend.report.drawn.canvas import canvas
from xbackend.report.said import text
from xbackend.wording import join

# Limits in times the smallest time; the first fill is for cells that are not shown to be slower than that.
FILLS = tuple(zip((1.0, 1.5, 3.0, 10.0, math.inf), SHADES, strict=True))
_WITHOUT = {"missing": "\N{EN DASH}", "failed": "\N{MULTIPLICATION SIGN}", "wrong": "!"}
_WITHOUT |= {"not verified": "?", "not determined": "~"}
_LABEL, _NAME = 32, 30
READING = (
    "Cells of the strongest colour are not shown to be slower than the fastest, a frame is what is shown to be faster "
    f"than all others; then up to {join(f'{limit:g}' for limit, _ in FILLS[1:-1])} times the smallest time, and more; "
    f"{', '.join(f'{sign} {status}' for status, sign in _WITHOUT.items())}."
)


def picture(matrix: Matrix, title: str) -> bytes:
    """A line for each comparison, a column for each candidate."""
    labels = [text.shorten(comparison.label.replace(" size=", " "), _LABEL) for comparison in matrix.comparisons]
    names = [text.shorten(column, _NAME) for column in matrix.columns]
    with canvas(0.35 + 0.062 * max(map(len, names)) + 0.19 * len(labels)) as (figure, finish):
        axes = figure.add_subplot()
        for i, line in enumerate(matrix.lines):
            for j, one in enumerate(line):
                _cell(axes, i, j, one)
        axes.set_xlim(0, len(names))
        axes.set_ylim(len(labels), 0)
        axes.xaxis.tick_top()
        axes.set_xticks([j + 0.5 for j in range(len(names))], names, rotation=90, fontsize=8)
        axes.set_yticks([i + 0.5 for i in range(len(labels))], labels, fontsize=8)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        return finish(title)


def _cell(axes: Any, i: int, j: int, one: MatrixCell) -> None:
    from matplotlib.patches import Rectangle

    if one.slowdown is None:
        status = one.row.measurement.status if one.row is not None else ""
        axes.text(j + 0.5, i + 0.5, _WITHOUT.get(status, ""), ha="center", va="center", fontsize=8, color=GREY)
        return
    fill = FILLS[0][1] if one.level else next(fill for limit, fill in FILLS[1:] if one.slowdown <= limit)
    edge, width = (INK, 1.1) if one.winner else (GREY, 0.3)
    axes.add_patch(Rectangle((j + 0.04, i + 0.06), 0.92, 0.88, facecolor=fill, edgecolor=edge, linewidth=width))
    value = 1.0 if one.is_reference else one.ratio.value if one.ratio is not None else None
    axes.text(j + 0.5, i + 0.5, short(value), ha="center", va="center", fontsize=7.5, color=INK)


def short(value: float | None) -> str:
    """A number in about three characters."""
    if value is None:
        return text.NOTHING
    if value < 9.95:
        return f"{value:.1f}" if value >= 0.095 else f"{value:.2f}".removeprefix("0")
    for size, letter in ((1.0, ""), (1e3, "k"), (1e6, "M")):
        if value < 999.5 * size:
            return f"{value / size:.0f}{letter}"
    return "\N{INFINITY}"
