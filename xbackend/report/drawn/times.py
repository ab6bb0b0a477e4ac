"""Plots of times: those of one comparison, and speed against size with a panel for each backend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from xbackend.analysis.comparison import Comparison, Row, size_of, titled, without_size
from xbackend.report.drawn.axes import errors, in_lines, log_ticks, note, panels, row_labels, tick, tick_time
from xbackend.report.drawn.canvas import GREY, canvas, style
from xbackend.report.said import text
from xbackend.wording import grouped

# The longest time on a linear axis, in medians; a longer one would flatten the rest.
_WIDE = 4
_COLUMNS = 3
_LOOKS = {"markersize": 4.5, "linewidth": 1.3, "elinewidth": 1, "capsize": 2}
_TOGETHER = 1.3  # times: ends of lines that are closer share a label

BySize = list[tuple[float, Comparison]]


def over_sizes(comparisons: Sequence[Comparison]) -> dict[str, BySize]:
    """The comparisons with times of workloads that were measured at two sizes or more, all other parameters equal."""
    sized = [(size, c) for c in comparisons if c.ranked and (size := size_of(c.parameters)) is not None]
    series = grouped((titled(c.workload, without_size(c.parameters)), (size, c)) for size, c in sized)
    return {title: sorted(each, key=lambda member: member[0]) for title, each in series.items() if len(dict(each)) > 1}


def medians(comparison: Comparison, title: str) -> bytes:
    """A line for each backend, the fastest above; one row at least must have a time.

    A dot is a process, a line the interval, a mark the time, below its number of devices. A cross stroke is the ideal
    time on the most devices, scaled from that on the fewest.
    """
    by_label = grouped((row.label, row) for row in comparison.ordered)
    several = len({row.devices for row in comparison.rows}) > 1
    with canvas(0.8 + (0.32 if several else 0.26) * len(by_label)) as (figure, finish):
        axes = figure.add_subplot()
        unit = text.time_unit(row.time for row in comparison.ranked)
        scaled = [t / unit[1] for row in comparison.ranked for t in (*row.times, *(row.interval or ()))]
        _time_axis(axes, unit, min(scaled), max(scaled), median(row.time or 0.0 for row in comparison.ranked) / unit[1])
        for place, rows in enumerate(by_label.values()):
            _line(axes, place, sorted(rows, key=lambda row: row.devices), unit, several)
        row_labels(axes, list(by_label))
        axes.set_ylim(len(by_label) - 0.4, -0.6)
        axes.grid(axis="x")
        return finish(title)


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
    """The rows of a backend, which differ in their number of devices if there are ``several``."""
    looks = style(rows[0].measurement.backend)
    marks = [(row.time / unit[1], row) for row in rows if row.time is not None]
    words = [row.measurement.status if row.measurement.status != "ok" else "no time" for row in rows if not row.time]

    def level(seconds: Sequence[float], *marker: str, **more: Any) -> None:
        axes.plot([t / unit[1] for t in seconds], [place] * len(seconds), *marker, **{"color": looks["color"], **more})

    for at, row in marks:
        level(row.interval or (), linewidth=1.8, alpha=0.8)
        level(row.times, ".", markersize=4, alpha=0.6, markeredgewidth=0)
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


def _numbers_of_devices(axes: Any, place: int, marks: Sequence[tuple[float, Row]]) -> None:
    """The number of devices above each mark; those of the outer marks stand aside."""
    ranked = sorted(marks, key=lambda mark: mark[0])
    sides = [("right", -1), *[("center", 0)] * (len(ranked) - 2), ("left", 1)] if len(ranked) > 1 else [("center", 0)]
    for (at, row), (side, aside) in zip(ranked, sides, strict=False):
        note(axes, str(row.devices), (at, place), (aside, 3.5), ha=side, va="bottom", fontsize=7.5)


def sizes(series: BySize, title: str) -> bytes:
    """GFLOP/s where operations were counted, else the time, against the size; a panel for each backend."""
    timed = [(size, row) for size, comparison in series for row in comparison.rows if row.times]
    labels = grouped((row.label, (row.devices, (size, row))) for size, row in timed)
    lines = {label: grouped(points) for label, points in labels.items()}
    every = [points for own in lines.values() for points in own.values()]
    rated = all(row.gflops for points in every for _, row in points)
    counts = sorted({devices for own in lines.values() for devices in own})
    with canvas(0.6 + 1.25 * -(-len(lines) // _COLUMNS)) as (figure, finish):
        shown = panels(figure, len(lines), _COLUMNS, sharey=True)
        for axes, (label, own) in zip(shown, lines.items(), strict=True):
            for points in every:
                axes.plot(*_curve(points, rated), color=GREY, linewidth=0.6, alpha=0.45)
            for devices, points in own.items():
                rows = [row for _, row in points]
                looks = style(rows[0].measurement.backend) | _LOOKS
                line = "--" if len(counts) > 1 and devices == counts[0] else "-"
                axes.errorbar(*_curve(points, rated), yerr=errors(rows, rated), linestyle=line, **looks)
            if len(counts) > 1:
                _ends(axes, {devices: [at[-1] for at in _curve(points, rated)] for devices, points in own.items()})
            axes.set_title(in_lines(label, 20), loc="left", fontsize=8.5)
        first, ticks = shown[0], sorted(dict(series))
        first.set(xscale="log", yscale="log")
        log_ticks(first.yaxis, first.get_ylim(), tick if rated else tick_time, most=4)
        log_ticks(first.xaxis, first.get_xlim(), tick, most=4)
        if len(ticks) <= 4:
            first.set_xticks(ticks, _that_fit(ticks))
        for axes in shown:
            axes.tick_params(labelsize=8)
            axes.grid()
        for axes in shown[-_COLUMNS:]:  # the lowest of each column has the sizes
            axes.tick_params(axis="x", labelbottom=True)
        figure.supxlabel("size", fontsize=9, color=GREY)
        figure.supylabel("GFLOP/s" if rated else "time of one execution", fontsize=9, color=GREY)
        return finish(title)


def _curve(points: Sequence[tuple[float, Row]], rated: bool) -> tuple[list[float], list[float]]:
    return [size for size, _ in points], [(row.gflops if rated else row.time) or 0.0 for _, row in points]


def _ends(axes: Any, ends: Mapping[int, Sequence[float]]) -> None:
    """The number of devices at the end of each line; lines that end nearly together share a label."""
    groups: list[list[int]] = []
    for devices, (_, value) in sorted(ends.items(), key=lambda end: end[1][1]):
        if groups and value < _TOGETHER * ends[groups[-1][-1]][1]:
            groups[-1].append(devices)
        else:
            groups.append([devices])
    for group in groups:
        note(axes, ", ".join(map(str, sorted(group))), tuple(ends[group[0]]), (4, 0), fontsize=7.5)


def _that_fit(ticks: Sequence[float]) -> list[str]:
    """The labels of sizes on the axis of a panel; one that would touch its predecessor or the last is empty."""
    words = [tick(each) for each in ticks]
    points = 70 / math.log(ticks[-1] / ticks[0])  # of the width of a panel
    last = len(ticks) - 1
    for i in range(1, last):
        near = next(j for j in range(i - 1, -1, -1) if words[j])
        for j in (near, last):
            if points * abs(math.log(ticks[i] / ticks[j])) < 2.6 * (len(words[i]) + len(words[j])):
                words[i] = ""
    return words
