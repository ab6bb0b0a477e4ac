"""The plots of times: of one comparison, one device against several, and against the size, a panel for each backend."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from xbackend.analysis.comparison import Comparison, Row, size_of, titled, without_size
from xbackend.analysis.statistics import interval
from xbackend.report.drawn.canvas import GREY, canvas, style
from xbackend.report.said import text
from xbackend.wording import plain

# So many times the median time the longest is drawn on a linear axis; above it would flatten the rest.
_WIDE = 4
_LABEL = 30
_COLUMNS = 3
_TOGETHER = 1.3  # ends of lines that are closer than so many times have one label


BySize = list[tuple[float, Comparison]]


def over_sizes(comparisons: Sequence[Comparison]) -> dict[str, BySize]:
    """The comparisons with times of workloads that were measured at two sizes or more, all other parameters equal."""
    series: dict[str, BySize] = {}
    for comparison in comparisons:
        size = size_of(comparison.parameters)
        if size is not None and comparison.ranked:
            title = titled(comparison.workload, without_size(comparison.parameters))
            series.setdefault(title, []).append((size, comparison))
    return {title: sorted(each, key=lambda member: member[0]) for title, each in series.items() if len(dict(each)) > 1}


def bar(row: Row) -> tuple[float, float] | None:
    """Both ends of the interval of a time; `None` where there are too few processes for one."""
    low, high = interval(row.times)
    return None if math.isnan(low) else (low, high)


def medians(comparison: Comparison, title: str) -> bytes:
    """A line for each backend, the fastest above: a dot for each process, a line for the interval, a mark at the time,
    under the number of devices where rows differ in it; a cross stroke is the ideal, the time on the fewest over how
    many times as many the most are.

    There must be a row that has a time.
    """
    by_label: dict[str, list[Row]] = {}
    for row in [*comparison.ranked, *(row for row in comparison.rows if not row.times)]:
        by_label.setdefault(row.label, []).append(row)
    several = len({row.devices for row in comparison.rows}) > 1
    with canvas(0.8 + (0.32 if several else 0.26) * len(by_label)) as (figure, finish):
        axes = figure.add_subplot()
        unit = text.time_unit(row.time for row in comparison.ranked)
        scaled = [t / unit[1] for row in comparison.ranked for t in (*row.times, *(bar(row) or ()))]
        _time_axis(axes, unit, min(scaled), max(scaled), median(row.time or 0.0 for row in comparison.ranked) / unit[1])
        for place, rows in enumerate(by_label.values()):
            _line(axes, place, sorted(rows, key=lambda row: row.devices), unit, several)
        row_labels(axes, list(by_label))
        axes.set_ylim(len(by_label) - 0.4, -0.6)
        axes.grid(axis="x")
        return finish(title)


def row_labels(axes: Any, labels: Sequence[str]) -> None:
    """The names of the rows, an environment or an option on a line of its own, smaller."""
    axes.set_yticks(range(len(labels)), [_in_lines(label, _LABEL) for label in labels])
    for shown in axes.get_yticklabels():
        if "\n" in shown.get_text():
            shown.set_fontsize(7.5)
    axes.tick_params(axis="y", length=0)


def _in_lines(label: str, length: int) -> str:
    """At most ``length`` letters a line: the backend, and below it what tells it from others of its name."""
    parts = re.split(r" (?=\()|(?=\[)", plain(label), maxsplit=1)
    return "\n".join(text.shorten(part, length) for part in parts if part)


def _time_axis(axes: Any, unit: tuple[str, float], low: float, high: float, middle: float) -> None:
    scale = ""
    if high > _WIDE * middle or high > 20 * low:
        scale = ", logarithmic"
        axes.set_xscale("log")
        room = max((high / low) ** 0.05, 1.05)
        axes.set_xlim(low / room, high * room)
        log_ticks(axes.xaxis, axes.get_xlim(), tick, most=5)
    else:
        axes.set_xlim(0, high * 1.05)
    axes.set_xlabel(f"time of one execution ({unit[0]}{scale})", fontsize=9)


def _line(axes: Any, place: int, rows: Sequence[Row], unit: tuple[str, float], several: bool) -> None:
    """The rows of a backend, which differ in how many devices they have if there are ``several`` numbers of them."""
    looks = style(rows[0].measurement.backend)
    marks = [(row.time / unit[1], row) for row in rows if row.time is not None]
    words = [row.measurement.status if row.measurement.status != "ok" else "no time" for row in rows if not row.time]
    for at, row in marks:
        ends = [t / unit[1] for t in bar(row) or ()]
        axes.plot(ends, [place] * len(ends), color=looks["color"], linewidth=1.8, alpha=0.8)
        dots = [t / unit[1] for t in row.times]
        axes.plot(dots, [place] * len(dots), ".", color=looks["color"], markersize=4, alpha=0.6, markeredgewidth=0)
        axes.plot([at], [place], **looks, markersize=6)
    if several:
        _numbers_of_devices(axes, place, marks)
    if len(marks) > 1:
        (start, first), (end, last) = marks[0], marks[-1]
        ideal = start * first.devices / max(last.devices, 1)
        axes.plot([ideal, ideal], [place - 0.3, place + 0.3], color=GREY, linewidth=1.4)
        axes.plot([start, end], [place] * 2, color=looks["color"], linewidth=0.8)
    times = " \N{RIGHTWARDS ARROW} ".join(text.number(at, 4) for at, _ in marks)
    note(axes, ", ".join(filter(None, [times, *dict.fromkeys(words)])), (1, place), (5, 0), axes.get_yaxis_transform())


def note(
    axes: Any, words: str, at: tuple[float, float], offset: tuple[float, float], of: Any = "data", **looks: Any
) -> None:
    """Words so many points from a place, in the coordinates ``of`` something; to its right if nothing else is said."""
    axes.annotate(words, at, offset, of, "offset points", **{"va": "center", "fontsize": 8.5, **looks})


def _numbers_of_devices(axes: Any, place: int, marks: Sequence[tuple[float, Row]]) -> None:
    """The number of devices above each mark; those of the outer marks stand aside."""
    ranked = sorted(marks, key=lambda mark: mark[0])
    sides = [("right", -1), *[("center", 0)] * (len(ranked) - 2), ("left", 1)] if len(ranked) > 1 else [("center", 0)]
    for (at, row), (side, aside) in zip(ranked, sides, strict=False):
        note(axes, str(row.devices), (at, place), (aside, 3.5), ha=side, va="bottom", fontsize=7.5)


def sizes(series: BySize, title: str) -> bytes:
    """A panel for each backend: GFLOP/s against size where operations were counted, else the time, both logarithmic,
    with intervals; the others stand behind it in grey."""
    lines: dict[str, dict[int, list[tuple[float, Row]]]] = {}
    for size, comparison in series:
        for row in comparison.rows:
            if row.times:
                lines.setdefault(row.label, {}).setdefault(row.devices, []).append((size, row))
    every = [points for own in lines.values() for points in own.values()]
    rated = all(row.gflops for points in every for _, row in points)
    counts = sorted({devices for own in lines.values() for devices in own})
    bands = -(-len(lines) // _COLUMNS)
    with canvas(0.6 + 1.25 * bands) as (figure, finish):
        grid = figure.subplots(bands, min(_COLUMNS, len(lines)), sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(lines) :]:
            axes.set_visible(False)
        for axes, (label, own) in zip(grid.flat, lines.items(), strict=False):
            for points in every:
                axes.plot(*zip(*_curve(points, rated), strict=True), color=GREY, linewidth=0.6, alpha=0.45)
            for devices, points in own.items():
                _curve_of(axes, points, rated, dashed=len(counts) > 1 and devices == counts[0])
            if len(counts) > 1:
                _ends(axes, {devices: _curve(points, rated)[-1] for devices, points in own.items()})
            axes.set_title(_in_lines(label, 20), loc="left", fontsize=8.5)
        _size_axes(grid.flat[0], sorted(dict(series)), rated)
        for axes in grid.flat:
            axes.tick_params(labelsize=8)
            axes.grid()
        for column in range(grid.shape[1]):  # the lowest panel that is there has the sizes
            shown = [axes for axes in grid[:, column] if axes.get_visible()]
            shown[-1].tick_params(axis="x", labelbottom=True)
        figure.supxlabel("size", fontsize=9, color=GREY)
        figure.supylabel("GFLOP/s" if rated else "time of one execution", fontsize=9, color=GREY)
        return finish(title)


def _curve(points: Sequence[tuple[float, Row]], rated: bool) -> list[tuple[float, float]]:
    return [(size, (row.gflops if rated else row.time) or 0.0) for size, row in points]


def _ends(axes: Any, ends: Mapping[int, tuple[float, float]]) -> None:
    """Behind each line how many devices it is of; those that end nearly together have one place."""
    groups: list[list[int]] = []
    for devices, (_, value) in sorted(ends.items(), key=lambda end: end[1][1]):
        if groups and value < _TOGETHER * ends[groups[-1][-1]][1]:
            groups[-1].append(devices)
        else:
            groups.append([devices])
    for group in groups:
        note(axes, ", ".join(map(str, sorted(group))), ends[group[0]], (4, 0), fontsize=7.5)


def _curve_of(axes: Any, points: Sequence[tuple[float, Row]], rated: bool, dashed: bool) -> None:
    """A line with the marks of its backend, dashed on the fewest devices of several."""
    looks: dict[str, Any] = {**style(points[0][1].measurement.backend), "linestyle": "--" if dashed else "-"}
    at, values = zip(*_curve(points, rated), strict=True)
    reach = errors([row for _, row in points], rated)
    axes.errorbar(at, values, yerr=reach, **looks, markersize=4.5, linewidth=1.3, elinewidth=1, capsize=2)


def errors(rows: Sequence[Row], rated: bool = False) -> list[list[float]]:
    """How far the intervals reach below and above the times, or operations over time where they are ``rated``: no bar
    without an interval, and never less than 0, which rounding may give."""
    ends = []
    for row in rows:
        time, rate = row.time or 0.0, row.gflops or 0.0
        low, high = bar(row) or (time, time)
        ends.append((rate, rate * time / high, rate * time / max(low, 1e-300)) if rated else (time, low, high))
    return [[max(value - low, 0.0) for value, low, _ in ends], [max(high - value, 0.0) for value, _, high in ends]]


def _size_axes(axes: Any, ticks: list[float], rated: bool) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    log_ticks(axes.yaxis, axes.get_ylim(), tick if rated else tick_time, most=4)
    log_ticks(axes.xaxis, axes.get_xlim(), tick, most=4)
    if len(ticks) <= 4:
        axes.set_xticks(ticks, _that_fit(ticks))


def _that_fit(ticks: Sequence[float]) -> list[str]:
    """The words below sizes on the axis of a panel; those that would touch the last or the one before are empty."""
    words = [tick(each) for each in ticks]
    points = 70 / math.log(ticks[-1] / ticks[0])  # of the width of a panel
    last = len(ticks) - 1
    for i in range(1, last):
        near = next(j for j in range(i - 1, -1, -1) if words[j])
        for j in (near, last):
            if points * abs(math.log(ticks[i] / ticks[j])) < 2.6 * (len(words[i]) + len(words[j])):
                words[i] = ""
    return words


def tick(value: float) -> str:
    """A number for the tick of an axis."""
    return f"{value:.6g}"


def tick_time(value: float) -> str:
    """Seconds for the tick of an axis."""
    name, length = text.time_unit([value])
    return f"{tick(value / length)} {name}"


def log_ticks(axis: Any, limits: tuple[float, float], words: Callable[[float], str], most: int = 9) -> None:
    """At least two ticks in words of our own: matplotlib's would be mathematics, which no renderer of SVG sets."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = limits
    located: Any = LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 2.0, 5.0), numticks=most)
    if sum(low <= place <= high for place in located.tick_values(low, high)) < 2:  # round numbers that are close
        near = MaxNLocator(max(most - 1, 1)).tick_values(low, high)
        located = FixedLocator([float(place) for place in near if low <= place <= high])
    axis.set_major_locator(located)
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axis.set_minor_locator(NullLocator())
