"""The plot of jobs on clusters: the seconds of a step, of each worker of each run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from statistics import median, quantiles
from typing import Any

from xbackend.report.drawn.axes import log_ticks, note, row_labels, tick
from xbackend.report.drawn.canvas import canvas, style
from xbackend.report.said import text
from xbackend.results.clustered import Clustered

_APART = 0.16  # between the lines of two workers, in rows


def picture(done: Sequence[Clustered], names: Sequence[str], title: str) -> bytes:
    """A line for each worker, from the tenth to the ninetieth percent of its steps, with a mark at their median; the
    runs are below each other under their names, and each has a step that took some time."""
    medians = [median(chain(*run.seconds)) for run in done]
    unit = text.time_unit(medians)
    with canvas(0.8 + 0.3 * len(done)) as (figure, finish):
        axes = figure.add_subplot()
        axes.set_xscale("log")
        for place, (run, middle) in enumerate(zip(done, medians, strict=True)):
            _run(axes, place, run, unit[1])
            words = text.number(middle / unit[1], 4)
            note(axes, words, (1, place), (5, 0), axes.get_yaxis_transform())
        row_labels(axes, names)
        axes.set_ylim(len(done) - 0.4, -0.6)
        low, high = axes.get_xlim()
        axes.set_xlim(low, high)
        log_ticks(axes.xaxis, (low, high), tick, most=5)
        axes.set_xlabel(f"a step of a worker ({unit[0]}, logarithmic)", fontsize=9)
        axes.grid(axis="x")
        return finish(title)


def _run(axes: Any, place: int, run: Clustered, unit: float) -> None:
    """The workers of a run, below each other around the middle of its row."""
    looks, timed = style(run.backend), [worker for worker in run.seconds if any(worker)]
    apart = min(_APART, 0.7 / len(timed))
    for number, worker in enumerate(timed):
        at = place + apart * (number - (len(timed) - 1) / 2)
        # The other method goes beyond the steps that there are.
        first, *_, last = quantiles(worker, n=10, method="inclusive") if len(worker) > 1 else [*worker, *worker]
        axes.plot([first / unit, last / unit], [at, at], color=looks["color"], linewidth=1.3, alpha=0.7)
        axes.plot([median(worker) / unit], [at], **looks, markersize=4.5)
