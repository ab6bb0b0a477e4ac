"""The plots of times: of one group of candidates, and against the size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xbackend import wording
from xbackend.analysis.statistics import interval
from xbackend.report import text
from xbackend.report.candidates import Candidate, Group
from xbackend.report.canvas import COLOURS, canvas
from xbackend.wording import plain

_MARKERS = "osD^vP<>Xphd"  # not as many as colours: both together repeat after 132 backends only
_LINES = ("-", "--", ":", "-.")
# Times outside of this many seconds come from a damaged file and have no place on an axis.
_SMALLEST, _LARGEST = 1e-12, 1e12
# A range wider than this is drawn on a logarithmic axis.
_WIDE = 20
_LABEL = 48
_BESIDE = 28  # letters: with a longer label than this the legend stands below and not beside


@dataclass(frozen=True)
class Sweep:
    """The groups of one workload that differ in their size only, by size."""

    workload: str
    title: str
    groups: tuple[tuple[float, Group], ...]


def over_sizes(groups: Sequence[Group]) -> list[Sweep]:
    """The workloads that were measured at two sizes or more, all other parameters equal."""
    found: dict[str, list[tuple[float, Group]]] = {}
    for group in groups:
        size = group.parameters.get("size")
        if isinstance(size, int | float) and not isinstance(size, bool) and drawable(size) and shown(group):
            found.setdefault(_title(group), []).append((float(size), group))
    return [
        Sweep(members[0][1].workload, title, tuple(sorted(members, key=lambda member: member[0])))
        for title, members in found.items()
        if len({size for size, _ in members}) > 1
    ]


def _title(group: Group) -> str:
    rest = wording.pairs({name: item for name, item in group.parameters.items() if name != "size"})
    return plain(group.workload) + (f": {rest}" if rest else "")


def drawable(value: float | None) -> bool:
    """Whether a time, or another positive number, has a place on an axis."""
    return value is not None and _SMALLEST < value < _LARGEST


def shown(group: Group) -> list[Candidate]:
    """The candidates of a group that have a place on an axis of time."""
    return [c for c in group.candidates if drawable(c.time) and _dots(c)]


def _dots(candidate: Candidate) -> list[float]:
    return [t for t in candidate.medians if drawable(t)]


def bar(candidate: Candidate) -> list[float]:
    """Both ends of the interval of a time; nothing where there is none that has a place on an axis."""
    ends = list(interval(candidate.medians))
    return ends if all(map(drawable, ends)) else []


def medians(group: Group, title: str) -> bytes:
    """A row for each candidate: a dot for each process, a line for the interval, a bar across at the time, its value.

    There must be a candidate that is `shown`.
    """
    with canvas(7.6, 0.9 + 0.3 * len(group.candidates)) as (figure, finish):
        axes = figure.add_subplot()
        drawn = shown(group)
        unit = text.time_unit(c.time for c in drawn)
        scaled = [t / unit[1] for c in drawn for t in (*_dots(c), *bar(c))]
        _time_axis(axes, unit, min(scaled), max(scaled))
        counts = sorted({c.measurement.devices for c in group.candidates})
        for row, candidate in enumerate(group.candidates):
            colour = COLOURS[counts.index(candidate.measurement.devices) % len(COLOURS)]
            _candidate(axes, row, candidate, unit, colour)
        labels = [text.shorten(c.name, _LABEL) for c in group.candidates]
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


def _candidate(axes: Any, row: int, candidate: Candidate, unit: tuple[str, float], colour: str) -> None:
    middle = candidate.time
    if middle is None or not drawable(middle) or not _dots(candidate):
        words = candidate.measurement.status if candidate.measurement.status != "ok" else "no time"
        where = (0.01, row)
        transform = axes.get_yaxis_transform()
        axes.text(*where, text.shorten(plain(words), _LABEL), transform=transform, va="center", style="italic")
        return
    dots, ends = ([t / unit[1] for t in times] for times in (_dots(candidate), bar(candidate)))
    axes.plot(ends, [row] * len(ends), color=colour, linewidth=1.6)
    axes.plot(dots, [row] * len(dots), "o", color=colour, markersize=5, alpha=0.55, markeredgewidth=0)
    axes.plot([middle / unit[1]], [row], "|", color=colour, markersize=14, markeredgewidth=2.5)
    axes.annotate(
        text.time(middle, unit),
        (max(dots + ends), row),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
    )


def sizes(series: Sweep, title: str) -> bytes:
    """Time against size, both logarithmic, with intervals; below it GFLOP/s, which tells close lines apart."""
    lines: dict[tuple[str, int], list[tuple[float, Candidate]]] = {}
    for size, group in series.groups:
        for c in shown(group):
            lines.setdefault((c.label, c.measurement.devices), []).append((size, c))
    backends = list(dict.fromkeys(backend for backend, _ in lines))
    counts = sorted({devices for _, devices in lines})
    rated = any(drawable(c.gflops) for points in lines.values() for _, c in points)
    with canvas(7.6, max(6.4 if rated else 3.6, 0.9 + 0.24 * len(lines))) as (figure, finish):
        axes, *below = figure.subplots(2 if rated else 1, 1, sharex=True, squeeze=False)[:, 0]
        handles = []
        for (backend, devices), points in lines.items():
            style = _line_style(backends.index(backend), counts.index(devices))
            handles.append(_times(axes, points, style))
            for rates in below:
                _rates(rates, points, style)
        _size_axes([axes, *below], sorted({size for size, _ in series.groups}))
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


def _times(axes: Any, points: list[tuple[float, Candidate]], style: dict[str, Any]) -> Any:
    middles = [c.time or 0.0 for _, c in points]
    # Without an interval no bar; no less than 0, as the rounding of logarithms may give.
    ends = [bar(c) or [m, m] for m, (_, c) in zip(middles, points, strict=True)]
    below = [max(m - low, 0.0) for m, (low, _) in zip(middles, ends, strict=True)]
    above = [max(high - m, 0.0) for m, (_, high) in zip(middles, ends, strict=True)]
    return axes.errorbar(
        [size for size, _ in points], middles, yerr=[below, above], capsize=2.5, elinewidth=1.0, **style
    )


def _rates(axes: Any, points: list[tuple[float, Candidate]], style: dict[str, Any]) -> None:
    known = [(size, c.gflops) for size, c in points if drawable(c.gflops)]
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
