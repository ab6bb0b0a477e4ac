"""The first picture: the ratio that was asked for, of each backend, with its interval.

With several devices it is the speed-up over one, drawn from 1 towards the ideal; else the ratio to the baseline. Each
comparison has a panel, all on the same logarithmic axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import quantiles
from typing import Any

from msgspec import Struct, structs

from xbackend.analysis.answer import named
from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.scaling import scalings
from xbackend.analysis.statistics import Ratio
from xbackend.report.drawn.axes import log_ticks, note, panels, row_labels, tick
from xbackend.report.drawn.canvas import GREY, canvas, style
from xbackend.report.said import text
from xbackend.wording import grouped, plain

_COLUMNS = 4
_TITLES = (50, 20, 12, 9)  # letters that fit above a panel, by the number of columns
_MOST = 8  # panels of a picture at most
_WRITTEN = 2  # columns: with more of them there is no room for numbers
_STROKE: Any = {"marker": "|", "markersize": 12, "markeredgewidth": 2.4}  # no difference is shown
_OUTLIER = 3.0  # quartile distances beyond the quartiles: a ratio farther off is an arrow at the edge


class Panel(Struct, frozen=True):
    """The rows of a comparison by label, and the ratios of those that have one; ``ideal`` is 1 where there is none."""

    title: str
    rows: dict[str, Row]
    ratios: dict[str, Ratio]
    ideal: int = 1


class Ratios(Struct, frozen=True):
    """The data of the first picture: its axis in words, whether more is better, its panels, and the number left out."""

    axis: str
    more_is_better: bool
    panels: tuple[Panel, ...]
    left_out: int


def ratios(comparisons: Sequence[Comparison]) -> Ratios | None:
    """The speed-ups of several devices over one, else the ratios to the baseline; `None` where there is neither."""
    speedups = [panel for c in comparisons for panel in _speedups(c)]
    panels = speedups or [panel for c in comparisons for panel in _against_baseline(c)]
    names = {c.baseline.name for c in comparisons if c.baseline is not None}
    against = f"time over that of {names.pop() if len(names) == 1 else 'the baseline'}"
    if len({c.workload for c in comparisons}) == 1:  # then the parameters alone tell the panels apart
        same = f"{plain(comparisons[0].workload)} "
        panels = [structs.replace(panel, title=panel.title.removeprefix(same)) for panel in panels]
    axis, left_out = "times as fast as on one device" if speedups else against, max(0, len(panels) - _MOST)
    return Ratios(axis, bool(speedups), tuple(panels[-_MOST:]), left_out) if panels else None


def _speedups(comparison: Comparison) -> list[Panel]:
    found, by_devices = [], grouped((s.devices, s) for s in scalings(comparison))
    for devices, own in sorted(by_devices.items()):
        last = {row.of: row for row in comparison.rows if row.devices in (1, devices)}  # of one device where no other
        rows = {row.label: row for row in last.values()}
        title = comparison.label + (f", {devices} devices" if len(by_devices) > 1 else "")
        found.append(Panel(title, rows, {s.many.label: s.ratio.inverse for s in own}, devices))
    return found


def _against_baseline(comparison: Comparison) -> list[Panel]:
    rows = {named(row, comparison): row for row in comparison.rows if row is not comparison.baseline}
    against = {name: comparison.ratio(row, comparison.baseline) for name, row in rows.items()}
    known = {name: ratio for name, ratio in against.items() if ratio is not None}
    return [Panel(comparison.label, rows, known)] if known else []


def reading(drawn: Ratios) -> str:
    """What the picture shows, in words."""
    better = "right" if drawn.more_is_better else "left"
    ideal = "; the dashed line is the ideal, as many times as there are devices" if drawn.more_is_better else ""
    more = f" The first {drawn.left_out} comparisons are not in it, but below." if drawn.left_out else ""
    return (
        f"Farther to the {better} is faster. A line is the {text.INTERVAL}, with an arrow where it goes on beyond the "
        f"axis; a full mark is a difference that is shown, a stroke none{ideal}.{more}"
    )


def picture(drawn: Ratios, title: str) -> bytes:
    """A row for each backend, the fastest of the last panel above, and a panel for each comparison."""
    labels = _order(drawn)
    columns = min(_COLUMNS, len(drawn.panels))
    low, high = _limits(drawn.panels)
    with canvas(-(-len(drawn.panels) // columns) * (0.85 + 0.25 * len(labels))) as (figure, finish):
        for axes, panel in zip(panels(figure, len(drawn.panels), columns, sharey=True), drawn.panels, strict=True):
            axes.set_xscale("log")
            axes.set_xlim(low, high)
            _background(axes, panel, columns)
            for place, label in enumerate(labels):
                row, ratio = panel.rows.get(label), panel.ratios.get(label)
                if row is not None and ratio is not None:
                    _mark(axes, place, style(row.measurement.backend), ratio, columns)
                elif row is not None:
                    state = row.measurement.status if row.measurement.status != "ok" else "no ratio"
                    axes.text(1, place, state, va="center", ha="center", style="italic", size=8)
            axes.set_ylim(len(labels) - 0.4, -1.1)
            row_labels(axes, labels)
            log_ticks(axes.xaxis, (low, high), tick, most=6 if columns == 1 else 3)
        arrow = "faster \N{RIGHTWARDS ARROW}" if drawn.more_is_better else "\N{LEFTWARDS ARROW} faster"
        figure.supxlabel(f"{drawn.axis} ({arrow})", fontsize=9, color=GREY)
        return finish(title)


def _order(drawn: Ratios) -> list[str]:
    labels = list[str]()
    for panel in reversed(drawn.panels):
        labels += sorted(panel.ratios, key=lambda label: panel.ratios[label].value, reverse=drawn.more_is_better)
    return list(dict.fromkeys([*labels, *(label for panel in drawn.panels for label in panel.rows)]))


def _limits(panels: Sequence[Panel]) -> tuple[float, float]:
    """The ends of the axis, which holds 1, the ideal, and all values and intervals but outliers."""
    logs = [math.log(m.value) for panel in panels for m in panel.ratios.values()]
    first, _, third = quantiles(logs, n=4) if len(logs) > 3 else (min(logs), 0.0, max(logs))
    reach = max(_OUTLIER * (third - first), math.log(2))
    fence = math.exp(first - reach), math.exp(third + reach)
    ends = [e for p in panels for m in p.ratios.values() for e in (m.value, m.low, m.high)]
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


def _mark(axes: Any, place: int, looks: dict[str, Any], ratio: Ratio, columns: int) -> None:
    """A line from 1 to a ratio, with its interval; an arrow where one of them leaves the axis."""
    left, right = axes.get_xlim()
    value, *ends = (min(max(each, left), right) for each in (ratio.value, ratio.low, ratio.high))
    colour = looks["color"]
    if value != ratio.value:
        words, beyond = text.number(ratio.value, 2), value == right
        words = f"{words} \N{RIGHTWARDS ARROW}" if beyond else f"\N{LEFTWARDS ARROW} {words}"
        axes.text(value, place, words, ha="right" if beyond else "left", va="center", size=8.5)
    else:
        axes.plot([1, value], [place] * 2, color=colour, linewidth=0.8, alpha=0.7)
        if math.isfinite(ratio.low):
            axes.plot(ends, [place] * 2, color=colour, linewidth=2.2, solid_capstyle="butt")
            for drawn, end, marker in zip(ends, (ratio.low, ratio.high), "<>", strict=True):
                if drawn != end:
                    axes.plot([drawn], [place], color=colour, marker=marker, markersize=6, clip_on=False)
        axes.plot([value], [place], **{**looks, "markersize": 7, **({} if ratio.shown else _STROKE)})
    if columns <= _WRITTEN:
        words = text.ratio(ratio) if columns == 1 and math.isfinite(ratio.low) else text.number(ratio.value)
        note(axes, words, (1, place), (4, 0), axes.get_yaxis_transform())
