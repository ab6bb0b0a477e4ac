"""The first picture: of each backend the ratio that was asked for, with its interval, sorted, and a line at 1. With
several devices it is the speed-up over one, each drawn from 1 towards the ideal; else the ratio to the baseline. One
panel for each comparison, all on the same logarithmic axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import quantiles
from typing import Any

from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.scaling import scalings
from xbackend.report.drawn.canvas import GREY, canvas, style
from xbackend.report.drawn.times import log_ticks, note, row_labels, tick
from xbackend.report.said import text
from xbackend.wording import plain

_COLUMNS = 4
_TITLES = (50, 20, 12, 9)  # letters that have room above a panel of so many columns
_MOST = 8  # panels: of more a picture shows no more
_WRITTEN = 2  # columns: with more of them there is no room for numbers
_STROKE: Any = {"marker": "|", "markersize": 12, "markeredgewidth": 2.4}  # no difference is shown
_OUTLIER = 3.0  # quartile distances beyond the quartiles: what is farther off is an arrow at the edge


@dataclass(frozen=True)
class Mark:
    """A ratio as it is drawn: its value, its interval (nan without one), and whether a difference is shown."""

    row: Row
    value: float
    low: float
    high: float
    shown: bool


@dataclass(frozen=True)
class Panel:
    """The ratios of a comparison by label, and why others have none; ``ideal`` is 1 where there is none."""

    title: str
    marks: dict[str, Mark]
    without: dict[str, str]
    ideal: int


@dataclass(frozen=True)
class Ratios:
    """What the first picture shows: its axis in words, and whether more is better."""

    axis: str
    more_is_better: bool
    panels: tuple[Panel, ...]
    left_out: int


def ratios(comparisons: Sequence[Comparison]) -> Ratios | None:
    """The speed-ups of several devices over one, else the ratios to the baseline; `None` where there is neither."""
    axis, panels = "times as fast as on one device", [panel for c in comparisons for panel in _speedups(c)]
    devices = bool(panels)
    if not devices:
        panels = [panel for c in comparisons for panel in _against_baseline(c)]
        names = {c.baseline.name for c in comparisons if c.baseline is not None}
        axis = f"time over that of {names.pop() if len(names) == 1 else 'the baseline'}"
    if not panels:
        return None
    workloads = {c.workload for c in comparisons}
    if len(workloads) == 1:  # then the parameters alone tell the panels apart
        same = f"{plain(workloads.pop())} "
        panels = [replace(panel, title=panel.title.removeprefix(same)) for panel in panels]
    return Ratios(axis, devices, tuple(panels[-_MOST:]), max(0, len(panels) - _MOST))


def _speedups(comparison: Comparison) -> list[Panel]:
    own = scalings(comparison)
    counts = sorted({s.devices for s in own})
    panels = []
    for devices in counts:
        marks = {}
        for s in (s for s in own if s.devices == devices):
            low, high = s.interval or (math.nan, math.nan)
            marks[s.many.label] = Mark(s.many, s.speedup, low, high, s.ratio.shown)
        rest = [row for row in comparison.rows if row.devices in (1, devices)]
        without = {row.label: _without(row) for row in rest if row.label not in marks}
        title = comparison.label + (f", {devices} devices" if len(counts) > 1 else "")
        panels.append(Panel(title, marks, without, devices))
    return panels


def _against_baseline(comparison: Comparison) -> list[Panel]:
    same = len({row.devices for row in comparison.rows}) == 1
    others = [row for row in comparison.rows if row is not comparison.baseline]
    against = {row.label if same else row.name: (row, comparison.against_baseline(row)) for row in others}
    marks = {
        name: Mark(row, ratio.value, ratio.low, ratio.high, ratio.shown)
        for name, (row, ratio) in against.items()
        if ratio is not None and math.isfinite(ratio.value)
    }
    without = {name: _without(row) for name, (row, _) in against.items() if name not in marks}
    return [Panel(comparison.label, marks, without, 1)] if marks else []


def _without(row: Row) -> str:
    return row.measurement.status if row.measurement.status != "ok" else "no ratio"


def reading(drawn: Ratios) -> str:
    """What the picture shows, in words."""
    better = "right" if drawn.more_is_better else "left"
    ideal = "; the dashed line is the ideal, as many times as there are devices" if drawn.more_is_better else ""
    more = f" The first {drawn.left_out} comparisons are not in it, but below." if drawn.left_out else ""
    return (
        f"Farther to the {better} is faster. A line is the {text.INTERVAL}, with an arrow where it goes on beyond the "
        f"axis; a full mark is a difference that is shown, a stroke none{ideal}."
        f"{more}"
    )


def picture(drawn: Ratios, title: str) -> bytes:
    """A row for each backend, the fastest of the last panel above, and a panel for each comparison."""
    labels = _order(drawn)
    columns = min(_COLUMNS, len(drawn.panels))
    bands = -(-len(drawn.panels) // columns)
    low, high = _limits(drawn.panels)
    with canvas(bands * (0.85 + 0.25 * len(labels))) as (figure, finish):
        grid = figure.subplots(bands, columns, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(drawn.panels) :]:
            axes.set_visible(False)
        for axes, panel in zip(grid.flat, drawn.panels, strict=False):
            axes.set_xscale("log")
            axes.set_xlim(low, high)
            _background(axes, panel, columns)
            for place, label in enumerate(labels):
                if label in panel.marks:
                    _mark(axes, place, panel.marks[label], (low, high), columns)
                else:
                    axes.text(1, place, panel.without.get(label, ""), va="center", ha="center", style="italic", size=8)
            axes.set_ylim(len(labels) - 0.4, -1.1)
            row_labels(axes, labels)
            log_ticks(axes.xaxis, (low, high), tick, most=6 if columns == 1 else 3)
        arrow = "faster \N{RIGHTWARDS ARROW}" if drawn.more_is_better else "\N{LEFTWARDS ARROW} faster"
        figure.supxlabel(f"{drawn.axis} ({arrow})", fontsize=9, color=GREY)
        return finish(title)


def _order(drawn: Ratios) -> list[str]:
    """The labels, the fastest of the last panel first, then those that only earlier ones have, then those without."""
    labels: dict[str, None] = {}
    for panel in reversed(drawn.panels):
        ranked = sorted(panel.marks.items(), key=lambda item: item[1].value, reverse=drawn.more_is_better)
        labels |= dict.fromkeys(label for label, _ in ranked)
    return list(labels | {label: None for panel in drawn.panels for label in panel.without})


def _limits(panels: Sequence[Panel]) -> tuple[float, float]:
    """The ends of the axis: 1, the ideal, and every value and interval that is not far off from the others."""
    logs = [math.log(m.value) for panel in panels for m in panel.marks.values()]
    first, _, third = quantiles(logs, n=4) if len(logs) > 3 else (min(logs), 0.0, max(logs))
    reach = max(_OUTLIER * (third - first), math.log(2))
    fence = math.exp(first - reach), math.exp(third + reach)
    ends = [e for p in panels for m in p.marks.values() for e in (m.value, m.low, m.high)]
    within = [end for end in ends if fence[0] <= end <= fence[1]]
    within += [1.0, *(float(p.ideal) for p in panels)]
    low, high = min(within), max(within)
    room = max((high / low) ** 0.06, 1.02)
    return low / room, high * room


def _background(axes: Any, panel: Panel, columns: int) -> None:
    axes.axvline(1, color=GREY, linewidth=1.1)
    if panel.ideal > 1:
        axes.axvline(panel.ideal, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        note(axes, "ideal", (panel.ideal, -0.7), (-3, 0), ha="right", fontsize=8)
    axes.set_title(text.shorten(panel.title, _TITLES[columns - 1]), loc="left", fontsize=9)
    axes.grid(axis="x")
    axes.set_axisbelow(True)


def _mark(axes: Any, place: int, mark: Mark, limits: tuple[float, float], columns: int) -> None:
    looks = style(mark.row.measurement.backend)
    low, high = limits
    value = min(max(mark.value, low), high)
    if value != mark.value:
        number = text.number(mark.value, 2)
        right = value == high
        words = f"{number} \N{RIGHTWARDS ARROW}" if right else f"\N{LEFTWARDS ARROW} {number}"
        axes.text(value, place, words, ha="right" if right else "left", va="center", size=8.5)
    else:
        axes.plot([1, value], [place] * 2, color=looks["color"], linewidth=0.8, alpha=0.7)
        if math.isfinite(mark.low):
            _interval(axes, place, mark, limits)
        axes.plot([value], [place], **{**looks, "markersize": 7, **({} if mark.shown else _STROKE)})
    _number(axes, place, mark, columns)


def _interval(axes: Any, place: int, mark: Mark, limits: tuple[float, float]) -> None:
    """A line from end to end, with an arrow where it leaves the axis."""
    colour = style(mark.row.measurement.backend)["color"]
    ends = [min(max(end, limits[0]), limits[1]) for end in (mark.low, mark.high)]
    axes.plot(ends, [place] * 2, color=colour, linewidth=2.2, solid_capstyle="butt")
    for drawn, end, marker in zip(ends, (mark.low, mark.high), "<>", strict=True):
        if drawn != end:
            axes.plot([drawn], [place], color=colour, marker=marker, markersize=6, clip_on=False)


def _number(axes: Any, place: int, mark: Mark, columns: int) -> None:
    if columns <= _WRITTEN:
        words = text.number(mark.value)
        if columns == 1 and math.isfinite(mark.low):
            words += f" ({text.number(mark.low)} to {text.number(mark.high)})"
        note(axes, words, (1, place), (4, 0), axes.get_yaxis_transform())
