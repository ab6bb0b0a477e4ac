"""Axes that pictures share: panels, the names of rows, intervals, ticks, and words at a place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from xbackend.analysis.comparison import Row
from xbackend.report.said import text
from xbackend.wording import plain

_LABEL = 30  # letters of the name of a row


def panels(figure: Any, count: int, columns: int = 1, **more: Any) -> list[Any]:
    """So many panels with the same x axis, ``columns`` of them side by side."""
    grid = figure.subplots(-(-count // columns), min(columns, count), sharex=True, squeeze=False, **more)
    for spare in grid.flat[count:]:
        spare.set_visible(False)
    return list(grid.flat[:count])


def row_labels(axes: Any, labels: Sequence[str]) -> None:
    """The names of the rows. An environment or an option has a line of its own, and smaller letters."""
    axes.set_yticks(range(len(labels)), [in_lines(label, _LABEL) for label in labels])
    for shown in axes.get_yticklabels():
        if "\n" in shown.get_text():
            shown.set_fontsize(7.5)
    axes.tick_params(axis="y", length=0)


def in_lines(label: str, length: int) -> str:
    """The backend, and below it its option or environment; each line is cut to ``length`` letters."""
    parts = re.split(r" (?=\()|(?=\[)", plain(label), maxsplit=1)
    return "\n".join(text.shorten(part, length) for part in parts if part)


def errors(rows: Sequence[Row], rated: bool = False) -> list[list[float]]:
    """The reach of the intervals below and above the times, or ``rated`` the rates of operations; 0 without one."""
    ends = []
    for row in rows:
        time, rate = row.time or 0.0, row.gflops or 0.0
        low, high = row.interval or (time, time)
        ends.append((rate, rate * time / high, rate * time / max(low, 1e-300)) if rated else (time, low, high))
    return [[max(value - low, 0.0) for value, low, _ in ends], [max(high - value, 0.0) for value, _, high in ends]]


def note(
    axes: Any, words: str, at: Sequence[float], offset: tuple[float, float], of: Any = "data", **looks: Any
) -> None:
    """Words at an ``offset`` in points from a place, in the coordinates ``of``; to its right by default."""
    axes.annotate(words, at, offset, of, "offset points", **{"va": "center", "fontsize": 8.5, **looks})


def tick(value: float) -> str:
    """A number for the tick of an axis."""
    return f"{value:.6g}"


def tick_time(value: float) -> str:
    """Seconds for the tick of an axis."""
    name, length = text.time_unit([value])
    return f"{tick(value / length)} {name}"


def log_ticks(axis: Any, limits: tuple[float, float], words: Callable[[float], str] = tick, most: int = 9) -> None:
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
