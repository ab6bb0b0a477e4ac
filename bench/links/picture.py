"""The picture of a model of scaling: the speed-up of n workers, each way, with and without faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from links.scaling import WAYS, Point
from xbackend.report.drawn.axes import log_ticks
from xbackend.report.drawn.canvas import COLOURS, GREY, canvas


def picture(points: Sequence[Point], title: str) -> bytes:
    """Two panels over the number of workers: the speed-up, both axes logarithmic, and its share of the ideal; dashed
    with faults. There must be two points at least."""
    workers = [p.workers for p in points]
    with canvas(4.6) as (figure, finish):
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        above.plot(workers, workers, color=GREY, linewidth=0.8, linestyle=":", label="ideal")
        for way, colour in zip(WAYS, COLOURS, strict=False):
            _way(above, below, points, way, colour)
        above.plot([], [], color=GREY, linestyle="--", linewidth=1.2, label="with faults")
        above.set_xscale("log")
        above.set_yscale("log")
        least = min(min(p.with_faults.values()) for p in points)
        above.set_ylim(max(least, 0.01) / 1.3, workers[-1] * 1.3)
        log_ticks(above.yaxis, above.get_ylim(), _tick, most=6)
        log_ticks(below.xaxis, (workers[0], workers[-1]), _tick, most=6)
        above.set_ylabel("speed-up over one worker", fontsize=9)
        below.set_ylim(0, 1.05)
        below.set_ylabel("share of the ideal", fontsize=9)
        below.set_xlabel("workers", fontsize=9)
        for axes in (above, below):
            axes.grid(True)
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper center", fontsize=8.5, ncols=2)
        return finish(title)


def _tick(value: float) -> str:
    return f"{value:g}"


def _way(above: Any, below: Any, points: Sequence[Point], way: str, colour: str) -> None:
    workers = [p.workers for p in points]
    for values, looks in (
        ([p.speedups[way] for p in points], {"linestyle": "-", "linewidth": 1.6, "label": way}),
        ([p.with_faults[way] for p in points], {"linestyle": "--", "linewidth": 1.2}),
    ):
        above.plot(workers, values, color=colour, **looks)
        below.plot(workers, [v / n for v, n in zip(values, workers, strict=True)], color=colour, **looks)
