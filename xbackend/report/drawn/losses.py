"""The plot of trainings: the loss over the epochs, and the differences of all losses from the first training's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xbackend.report.drawn.axes import log_ticks, note
from xbackend.report.drawn.canvas import GREY, canvas, style
from xbackend.report.said import text
from xbackend.results.trained import Trained

_STYLES = ("-", "--", ":", "-.")


def picture(done: Sequence[Trained], named: Callable[[Trained], str], limit: float, title: str) -> bytes:
    """The loss of each training over its epochs, and below the relative difference of each step from the first one's.

    Trainings within ``limit``, the limit of roundings, are one line: their largest difference.
    """
    first = done[0]
    far = {id(run): _far(run, first) for run in done}
    others = [run for run in done if run is not first and not max(far[id(run)].values(), default=math.inf) <= limit]
    same = [run for run in done if run is not first and run not in others]
    strategies = list(dict.fromkeys(run.strategy for run in done))
    lines = {name: _STYLES[i % len(_STYLES)] for i, name in enumerate(strategies)}
    with canvas(5.2 + 0.18 * (1 + len(others))) as (figure, finish):
        from matplotlib.ticker import MaxNLocator

        above, below = figure.subplots(2, 1)
        for run in (first, *others):
            label = named(run) + (f", and {len(same)} that coincide with it" if run is first and same else "")
            looks = {**style(run.backend), "linestyle": lines[run.strategy], "markersize": 3.5, "linewidth": 1.2}
            curve = {epoch.number + 1: epoch.train["loss"] for epoch in run.epochs if "loss" in epoch.train}
            above.plot(*_points(curve), label=text.shorten(label, 64), **looks)
            below.plot(*_points(far[id(run)]), **{**looks, "marker": ""})
        if same:
            steps = sorted({step for run in same for step in far[id(run)]})
            apart = {step: max(far[id(run)].get(step, 0.0) for run in same) for step in steps}
            colour = style(first.backend)["color"]
            below.plot(*_points(apart), color=colour, linewidth=1, label="below: the largest difference of those")
        above.set(xlabel="epoch", ylabel="mean loss of its rows")
        above.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        below.set(xlabel="step", ylabel="loss: difference from the\nfirst training's, relative")
        _difference_axis(below, limit)
        for axes in (above, below):
            axes.grid(axis="y")
        figure.legend(loc="outside lower left", fontsize=8)
        return finish(title)


def _difference_axis(axes: Any, limit: float) -> None:
    """A logarithmic axis around the limit of roundings, drawn as a line: differences far below it mean nothing."""
    axes.set_yscale("log")
    low, high = axes.get_ylim() if any(len(line.get_ydata()) for line in axes.lines) else (limit, limit)
    if limit:
        axes.axhline(limit, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        words, left = "below the dashed line: no more than roundings make", ("axes fraction", "data")
        note(axes, words, (0, limit), (4, 3), left, va="baseline", fontsize=8)
    axes.set_ylim(min(low, limit / 100) if limit else low, max(high, 10 * limit))
    log_ticks(axes.yaxis, axes.get_ylim(), lambda value: f"{value:.0e}", most=6)


def _points(values: Mapping[int, float]) -> tuple[list[int], list[float]]:
    """The points that are not 0, for which a logarithmic axis has no place."""
    return [i for i, value in values.items() if value], [value for value in values.values() if value]


def _far(run: Trained, first: Trained) -> dict[int, float]:
    other = dict(enumerate(first.losses, first.began + 1))
    pairs = ((i, loss, other.get(i)) for i, loss in enumerate(run.losses, run.began + 1))
    return {i: abs(loss / known - 1.0) for i, loss, known in pairs if known}
