"""Timelines: what each device did when in one profiled execution, so that it is seen whether they worked at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xbackend.analysis.comparison import Comparison, Measured
from xbackend.drawing.graph import colours, ordered
from xbackend.measure.profiles import typical
from xbackend.report import text
from xbackend.report.canvas import GREY, canvas
from xbackend.results.schema import Profile
from xbackend.wording import join, plain

_ROWS = 16  # devices of a panel: of more a picture shows no more
_LABEL = 60

READING = (
    "In a timeline a row is a device, a bar in its colour a stretch in which it computed, a grey bar one in which it "
    "received a value. Executions are profiled after the timed rounds, slower than usual; each timeline is of one "
    "execution in one process, the one whose shares are nearest to the medians that the ledger has, and says its own."
)


@dataclass(frozen=True)
class Timeline:
    """The spans of a profile that are drawn, by device."""

    row: Measured
    profile: Profile
    devices: tuple[str, ...]
    left_out: str
    at_once: str


def timelines(comparison: Comparison, devices: int) -> list[Timeline]:
    """Those of the rows with so many devices and a time that have stored spans."""
    rows = [row for row in comparison.rows if row.medians and row.devices == devices]
    profiles = [(row, typical([p.profile for p in row.processes if p.profile and p.profile.spans])) for row in rows]
    return [_timeline(row, profile) for row, profile in profiles if profile is not None]


def _timeline(row: Measured, profile: Profile) -> Timeline:
    devices = ordered([*row.measurement.bindings.values(), *(span[0] for span in profile.spans)])
    left_out = [f"{len(devices) - _ROWS} more devices"] if len(devices) > _ROWS else []
    if profile.count > len(profile.spans):
        left_out.append(f"the last {profile.count - len(profile.spans)} of {profile.count} spans")
    at_once = f"{100 * min(1.0, max(0.0, profile.together / profile.wall)):.0f} %"
    return Timeline(row, profile, devices[:_ROWS], join(left_out), at_once)


def picture(drawn: Sequence[Timeline], title: str) -> bytes:
    """A panel for each backend, one above the other, each with its own axis of time."""
    heights = [0.75 + 0.26 * len(line.devices) for line in drawn]
    with canvas(7.6, 0.3 + sum(heights)) as (figure, finish):
        panels = figure.subplots(len(drawn), 1, squeeze=False, height_ratios=heights)[:, 0]
        palette = colours(device for line in drawn for device in line.devices)
        for axes, line in zip(panels, drawn, strict=True):
            _panel(axes, line, {device: outline for device, (outline, _) in palette.items()})
        return finish(title)


def _panel(axes: Any, line: Timeline, palette: dict[str, str]) -> None:
    unit = text.time_unit([line.profile.wall])
    for row, device in enumerate(line.devices):
        for kind, height, colour in (("compute", 0.74, palette[device]), ("transfer", 0.3, GREY)):
            bars = [
                (s[1] / unit[1], (s[2] - s[1]) / unit[1]) for s in line.profile.spans if s[0] == device and s[3] == kind
            ]
            looks = {"facecolors": colour, "edgecolors": "#ffffff", "linewidth": 0.4}
            axes.broken_barh(bars, (row - height / 2, height), **looks)
    words = f"{line.row.name}, {line.at_once} at once" + (f", without {line.left_out}" if line.left_out else "")
    axes.set_title(text.shorten(words, _LABEL), loc="left", fontsize=10)
    axes.set_yticks(range(len(line.devices)), [text.shorten(plain(device), 24) for device in line.devices])
    axes.set_ylim(len(line.devices) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, line.profile.wall * 1.02 / unit[1])
    axes.set_xlabel(f"time ({unit[0]})")
    axes.set_axisbelow(True)
    axes.grid(axis="x")
