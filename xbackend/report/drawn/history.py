"""The plot of a history: a panel for each backend, its time over the runs, with intervals and changes of versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xbackend.analysis.history import Line, Point, Series
from xbackend.report.drawn.axes import errors, note, panels, tick_time
from xbackend.report.drawn.canvas import COLOURS, GREY, canvas
from xbackend.report.said import text
from xbackend.wording import counted

_COMPLETE: Any = {"marker": "o", "markersize": 5.5}
_INCOMPLETE: Any = {"marker": "_", "markersize": 11, "markeredgewidth": 2.4}
_PANEL = 1.35  # inches
_LETTERS = 80  # letters of the smallest size that fit into the width of a panel
_DATES = 6  # dates that fit below a panel
_ROOM = 1.1  # times: an axis has at least so much room beyond the largest and the smallest time


def picture(series: Series, title: str) -> bytes:
    """The plot of a series: a panel for each label that has a time at all. Empty where none has."""
    timed = [line for line in series.lines if any(p.measured.times for p in line.points)]
    labels = list(dict.fromkeys(line.label for line in timed))
    if not labels:
        return b""
    places = {id(run): position for position, run in enumerate(series.runs)}
    counts = sorted({line.devices for line in series.lines})
    with canvas(0.6 + _PANEL * len(labels)) as (figure, finish):
        handles: dict[str, Any] = {}
        for axes, label in zip(panels(figure, len(labels)), labels, strict=True):
            lines = [line for line in series.lines if line.label == label]
            _time_axis(axes, [p for line in lines for p in line.points if p.measured.times])
            _marks(axes, lines, places)
            for line in lines:
                colour = COLOURS[counts.index(line.devices) % len(COLOURS)]
                handles[counted(line.devices, "device")] = _line(axes, line, places, colour)
            axes.set_title(text.shorten(label, 60), loc="left", fontsize=10)
        step, last = -(-len(series.runs) // _DATES), len(series.runs) - 1
        shown = range(last, -1, -step)[::-1]  # the newest always has its date
        axes.set_xticks(shown, [text.moment(series.runs[i].created)[:10] for i in shown], fontsize=6.5)
        axes.set_xlim(-0.6, last + 0.6)
        if len(handles) > 1:
            figure.legend(handles.values(), handles.keys(), loc="outside upper right", fontsize=9, ncols=len(handles))
        return finish(title)


def _line(axes: Any, line: Line, places: dict[int, int], colour: str) -> Any:
    """The points of a line that have a time, arrows where an interval leaves the panel, crosses without a time."""
    there, (bottom, top) = [p for p in line.points if p.measured.times], axes.get_ylim()
    at = [places[id(p.run)] for p in there]
    times, reach = [p.measured.time or 0.0 for p in there], errors([p.measured for p in there])
    handle = axes.errorbar(at, times, yerr=reach, color=colour, linewidth=1.3, capsize=2.5)
    for p, place, time in zip(there, at, times, strict=True):
        axes.plot([place], [time], color=colour, **(_COMPLETE if p.run.complete else _INCOMPLETE))
        low, high = p.measured.interval or (bottom, top)
        for leaves, end, marker in ((low < bottom, bottom, "v"), (high > top, top, "^")):
            if leaves:
                axes.plot([place], [end], marker=marker, color=colour, markersize=5, clip_on=False)
    missing = [places[id(p.run)] for p in line.points if not p.measured.times]
    axes.plot(missing, [0.06] * len(missing), "x", color=GREY, transform=axes.get_xaxis_transform(), markersize=6)
    return handle


def _marks(axes: Any, lines: Sequence[Line], places: dict[int, int]) -> None:
    """A dashed line where versions changed, with the new ones on its roomier side."""
    news = {places[id(p.run)] - 0.5: p.new for line in lines for p in line.points if p.new}
    left, right = -0.6, len(places) - 0.4
    ends = [left, *sorted(news), right]
    for before, position, after in zip(ends, ends[1:], ends[2:], strict=False):
        side, aside = ("left", 4) if after - position >= position - before else ("right", -4)
        room = int(max(after - position, position - before) / (right - left) * _LETTERS)
        axes.axvline(position, color=GREY, linestyle="--", linewidth=1)
        words, top = text.shorten(news[position], max(room, 2)), axes.get_xaxis_transform()
        note(axes, words, (position, 1), (aside, -8), top, ha=side, va="baseline", fontsize=8)


def _time_axis(axes: Any, points: Sequence[Point]) -> None:
    """A range a little wider than the times; a wide interval leaves the panel, so that the others are not flat."""
    from matplotlib.ticker import MaxNLocator

    times = [p.measured.time or 0.0 for p in points]
    low, high = min(times), max(times)
    reach = [t for p in points for t in p.measured.interval or ()] or times
    bottom = max(min(*reach, low / _ROOM), low / 2)
    top = min(max(*reach, high * _ROOM), high * 2)
    axes.set_ylim(bottom - 0.05 * (top - bottom), top + 0.05 * (top - bottom))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(lambda value, _: tick_time(value))
    axes.grid(axis="y")
