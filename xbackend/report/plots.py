"""The plots of times: of one comparison of candidates, and against the size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xbackend.analysis.comparison import Comparison, Measured, size_of, titled, without_size
from xbackend.analysis.statistics import interval
from xbackend.report import text
from xbackend.report.canvas import COLOURS, canvas

_MARKERS = "osD^vP<>Xphd"  # not as many as colours: both together repeat after 132 backends only
_LINES = ("-", "--", ":", "-.")
# A range wider than this is drawn on a logarithmic axis.
_WIDE = 20
_LABEL = 48
_BESIDE = 28  # letters: with a longer label than this the legend stands below and not beside


BySize = list[tuple[float, Comparison]]


def over_sizes(comparisons: Sequence[Comparison]) -> dict[str, BySize]:
    """The comparisons with times of workloads that were measured at two sizes or more, all other parameters equal."""
    series: dict[str, BySize] = {}
    for comparison in comparisons:
        size = size_of(comparison.parameters)
        if size is not None and comparison.ranked:
            title = titled(comparison.workload, without_size(comparison.parameters))
            series.setdefault(title, []).append((size, comparison))
    several = {title: members for title, members in series.items() if len(dict(members)) > 1}
    return {title: sorted(members, key=lambda member: member[0]) for title, members in several.items()}


def bar(row: Measured) -> tuple[float, float] | None:
    """Both ends of the interval of a time; `None` where there are too few processes for one."""
    low, high = interval(row.medians)
    return None if math.isnan(low) else (low, high)


def medians(comparison: Comparison, title: str) -> bytes:
    """A line for each row: a dot for each process, a line for the interval, a bar across at the time, its value.

    There must be a row that has a time.
    """
    with canvas(7.6, 0.9 + 0.3 * len(comparison.rows)) as (figure, finish):
        axes = figure.add_subplot()
        unit = text.time_unit(row.time for row in comparison.ranked)
        scaled = [t / unit[1] for row in comparison.ranked for t in (*row.medians, *(bar(row) or ()))]
        _time_axis(axes, unit, min(scaled), max(scaled))
        counts = sorted({row.devices for row in comparison.rows})
        for place, row in enumerate(comparison.rows):
            _row(axes, place, row, unit, COLOURS[counts.index(row.devices) % len(COLOURS)])
        labels = [text.shorten(row.name, _LABEL) for row in comparison.rows]
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        return finish(title)


def _time_axis(axes: Any, unit: tuple[str, float], low: float, high: float) -> None:
    """The axis of time; room is left on the right for the values in words."""
    scale = ""
    if high > _WIDE * low:
        scale = ", logarithmic axis"
        axes.set_xscale("log")
        width = (high / low) ** 0.2
        axes.set_xlim(low / 1.3, high * max(width, 1.3))
        _log_ticks(axes.xaxis, axes.get_xlim(), _tick)
    else:
        axes.set_xlim(0, high * 1.22)
    axes.set_xlabel(f"time of one execution ({unit[0]}{scale})")


def _row(axes: Any, place: int, row: Measured, unit: tuple[str, float], colour: str) -> None:
    if row.time is None:
        words = row.measurement.status if row.measurement.status != "ok" else "no time"
        axes.text(0.01, place, words, transform=axes.get_yaxis_transform(), va="center", style="italic")
        return
    dots, ends = ([t / unit[1] for t in times] for times in (row.medians, bar(row) or ()))
    axes.plot(ends, [place] * len(ends), color=colour, linewidth=1.6)
    axes.plot(dots, [place] * len(dots), "o", color=colour, markersize=5, alpha=0.55, markeredgewidth=0)
    axes.plot([row.time / unit[1]], [place], "|", color=colour, markersize=14, markeredgewidth=2.5)
    axes.annotate(
        text.time(row.time, unit),
        (max(dots + ends), place),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
    )


def sizes(series: BySize, title: str) -> bytes:
    """Time against size, both logarithmic, with intervals; below it GFLOP/s, which tells close lines apart."""
    lines: dict[tuple[str, int], list[tuple[float, Measured]]] = {}
    for size, comparison in series:
        for row in comparison.rows:
            if row.medians:
                lines.setdefault((row.label, row.devices), []).append((size, row))
    backends = list(dict.fromkeys(backend for backend, _ in lines))
    counts = sorted({devices for _, devices in lines})
    rated = any(row.gflops for points in lines.values() for _, row in points)
    with canvas(7.6, max(6.4 if rated else 3.6, 0.9 + 0.24 * len(lines))) as (figure, finish):
        axes, *below = figure.subplots(2 if rated else 1, 1, sharex=True, squeeze=False)[:, 0]
        handles = []
        for (backend, devices), points in lines.items():
            style = _line_style(backends.index(backend), counts.index(devices))
            handles.append(_times(axes, points, style))
            for rates in below:
                _rates(rates, points, style)
        _size_axes([axes, *below], sorted(dict(series)))
        labels = [text.shorten(points[0][1].name, _LABEL) for points in lines.values()]
        beside = max(map(len, labels)) <= _BESIDE
        where: dict[str, Any] = {"loc": "outside right upper"} if beside else {"loc": "outside lower left", "ncols": 2}
        figure.legend(handles, labels, fontsize=9, **where)
        return finish(title)


def _line_style(backend: int, devices: int) -> dict[str, Any]:
    return {
        "color": COLOURS[backend % len(COLOURS)],
        "marker": _MARKERS[backend % len(_MARKERS)],
        "linestyle": _LINES[devices % len(_LINES)],
        "linewidth": 1.3,
        "markersize": 5,
    }


def _times(axes: Any, points: list[tuple[float, Measured]], style: dict[str, Any]) -> Any:
    rows = [row for _, row in points]
    looks = {"capsize": 2.5, "elinewidth": 1.0, **style}
    return axes.errorbar([size for size, _ in points], [row.time for row in rows], yerr=errors(rows), **looks)


def errors(rows: Sequence[Measured]) -> list[list[float]]:
    """How far the intervals reach below and above the times: no bar without an interval, and never less than 0, which
    the rounding of logarithms may give."""
    ends = [(row.time or 0.0, bar(row) or (row.time or 0.0,) * 2) for row in rows]
    below = [max(time - low, 0.0) for time, (low, _) in ends]
    return [below, [max(high - time, 0.0) for time, (_, high) in ends]]


def _rates(axes: Any, points: list[tuple[float, Measured]], style: dict[str, Any]) -> None:
    known = [(size, row.gflops) for size, row in points if row.gflops]
    axes.plot([size for size, _ in known], [rate for _, rate in known], **style)


def _size_axes(panels: Sequence[Any], ticks: list[float]) -> None:
    axes = panels[0]
    axes.set_xscale("log")
    axes.set_yscale("log")
    _log_ticks(axes.yaxis, axes.get_ylim(), tick_time)
    _log_ticks(axes.xaxis, axes.get_xlim(), _tick)
    if len(ticks) <= 8:
        axes.set_xticks(ticks, [_tick(tick) for tick in ticks])
    axes.set_ylabel("time of one execution")
    for rates in panels[1:]:
        rates.set_ylabel("GFLOP/s")
        rates.set_ylim(bottom=0)
    panels[-1].set_xlabel("size")
    for panel in panels:
        panel.grid()


def _tick(value: float) -> str:
    return f"{value:.6g}"


def tick_time(value: float) -> str:
    """Seconds for the tick of an axis."""
    name, length = text.time_unit([value])
    return f"{_tick(value / length)} {name}"


def _log_ticks(axis: Any, limits: tuple[float, float], words: Callable[[float], str]) -> None:
    """Ticks in words of our own: matplotlib's would be mathematics, which no renderer of SVG sets."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    wide = limits[1] > 300 * limits[0]
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axis.set_minor_locator(NullLocator())
