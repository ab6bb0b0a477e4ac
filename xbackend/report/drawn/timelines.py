"""Timelines: the spans of each device in one profiled execution, which show whether devices worked at once."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Any

from msgspec import Struct

from xbackend.analysis.comparison import Comparison, Row
from xbackend.drawing.graph import PAPER, colours, ordered
from xbackend.report.drawn.axes import panels
from xbackend.report.drawn.canvas import GREY, canvas
from xbackend.report.said import text
from xbackend.results.schema import Profile, typical
from xbackend.wording import join, plain

_ROWS = 16  # devices of a panel at most
_LABEL = 60
_LONG = 3.0  # times the median: a longer execution leaves the common axis

READING = (
    "A row is a device, a bar in its colour a stretch in which it computed, a grey bar one in which it received a "
    "value. Executions are profiled after the timed rounds, and are slower. A timeline is of one execution in one "
    "process, whose shares are nearest to the medians of the ledger. All of a picture have the same axis of time."
)


class Timeline(Struct, frozen=True):
    """The spans of a profile that are drawn, by device."""

    row: Row
    profile: Profile
    devices: tuple[str, ...]
    left_out: str


def timelines(comparison: Comparison, devices: int) -> list[Timeline]:
    """The timelines of rows with so many devices, a time and stored spans."""
    found = []
    for row in comparison.rows:
        profile = typical([p.profile for p in row.processes if p.profile and p.profile.spans])
        if profile is not None and row.times and row.devices == devices:
            on = ordered([*row.measurement.bindings.values(), *(span[0] for span in profile.spans)])
            without = [f"{len(on) - _ROWS} more devices"] if len(on) > _ROWS else []
            if profile.count > len(profile.spans):
                without.append(f"the last {profile.count - len(profile.spans)} of {profile.count} spans")
            found.append(Timeline(row, profile, on[:_ROWS], join(without)))
    return found


def picture(drawn: Sequence[Timeline], title: str) -> bytes:
    """A panel for each backend, all on one axis of time; one longer than `_LONG` times the median leaves it."""
    heights = [0.42 + 0.2 * len(line.devices) for line in drawn]
    walls = [line.profile.wall for line in drawn]
    unit = text.time_unit(walls)
    shared = max(wall for wall in walls if wall <= _LONG * median_low(walls))
    with canvas(0.5 + sum(heights)) as (figure, finish):
        palette = colours(device for line in drawn for device in line.devices)
        for axes, line in zip(panels(figure, len(drawn), height_ratios=heights), drawn, strict=True):
            _panel(axes, line, {device: outline for device, (outline, _) in palette.items()}, unit, shared)
        axes.set_xlim(0, shared * 1.02 / unit[1])
        axes.set_xlabel(f"time ({unit[0]})", fontsize=9)
        return finish(title)


def _panel(axes: Any, line: Timeline, palette: dict[str, str], unit: tuple[str, float], shared: float) -> None:
    for row, device in enumerate(line.devices):
        for kind, height, colour in (("compute", 0.74, palette[device]), ("transfer", 0.3, GREY)):
            own = [s for s in line.profile.spans if (s[0], s[3]) == (device, kind) and s[1] <= 1.1 * shared]
            bars = [(s[1] / unit[1], (min(s[2], 1.1 * shared) - s[1]) / unit[1]) for s in own]
            looks = {"facecolors": colour, "edgecolors": PAPER, "linewidth": 0.4}
            axes.broken_barh(bars, (row - height / 2, height), **looks)
    words = f"{line.row.label}, {text.share(line.profile.at_once)} at once"
    words += f", goes on to {text.time(line.profile.wall, unit)} \N{RIGHTWARDS ARROW}" * (line.profile.wall > shared)
    words += f", without {line.left_out}" if line.left_out else ""
    axes.set_title(text.shorten(words, _LABEL), loc="left", fontsize=9, pad=3)
    axes.set_yticks(range(len(line.devices)), [text.shorten(plain(device), 18) for device in line.devices], fontsize=8)
    axes.set_ylim(len(line.devices) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)
    axes.grid(axis="x")
