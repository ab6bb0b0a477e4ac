"""Timelines: what each device did when in one profiled execution, so that it is seen whether they worked at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xbackend.drawing.graph import colours, ordered
from xbackend.measure.profiles import typical
from xbackend.report import text
from xbackend.report.candidates import Candidate, Group
from xbackend.report.canvas import GREY, canvas
from xbackend.results.schema import Profile
from xbackend.wording import join, plain

_ROWS = 16  # devices of a panel: of more a picture shows no more
_LONGEST = 1e6  # seconds: longer is a damaged file's
_LABEL = 60

READING = (
    "In a timeline a row is a device, a bar in its colour a stretch in which it computed, a grey bar one in which it "
    "received a value. Executions are profiled after the timed rounds, slower than usual; each timeline is of one "
    "execution in one process, the one whose shares are nearest to the medians that the ledger has, and says its own."
)


@dataclass(frozen=True)
class Timeline:
    """The spans of a candidate that can be drawn, by device."""

    candidate: Candidate
    wall: float
    rows: tuple[str, ...]
    spans: tuple[tuple[str, float, float, str, str], ...]
    left_out: str
    at_once: str


def timelines(group: Group, devices: int) -> list[Timeline]:
    """Those of the candidates with so many devices that have stored spans."""
    found = []
    for candidate in group.candidates:
        m = candidate.measurement
        profile = typical([p.profile for p in m.processes if p.profile is not None and p.profile.spans])
        if m.devices == devices and m.status == "ok" and profile is not None:
            line = _timeline(candidate, profile)
            if line is not None:
                found.append(line)
    return found


def _timeline(candidate: Candidate, profile: Profile) -> Timeline | None:
    spans = tuple(s for s in profile.spans if 0 <= s[1] <= s[2] < _LONGEST)
    wall = profile.wall if 1e-9 < profile.wall < _LONGEST else math.nan
    if not spans or not math.isfinite(wall):
        return None
    every = ordered([*candidate.measurement.bindings.values(), *(s[0] for s in spans)])
    left_out = [f"{len(every) - _ROWS} more devices"] if len(every) > _ROWS else []
    if profile.count > len(profile.spans):
        left_out.append(f"the last {profile.count - len(profile.spans)} of {profile.count} spans")
    at_once = f"{100 * min(1.0, max(0.0, profile.together / wall)):.0f} %"
    return Timeline(candidate, wall, every[:_ROWS], spans, join(left_out), at_once)


def picture(found: Sequence[Timeline], title: str) -> bytes:
    """A panel for each backend, one above the other, each with its own axis of time."""
    heights = [0.75 + 0.26 * len(line.rows) for line in found]
    with canvas(7.6, 0.3 + sum(heights)) as (figure, finish):
        panels = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
        palette = colours(device for line in found for device in line.rows)
        for axes, line in zip(panels, found, strict=True):
            _panel(axes, line, {device: outline for device, (outline, _) in palette.items()})
        return finish(title)


def _panel(axes: Any, line: Timeline, palette: dict[str, str]) -> None:
    unit = text.time_unit([line.wall])
    for row, device in enumerate(line.rows):
        for kind, height, colour in (("compute", 0.74, palette[device]), ("transfer", 0.3, GREY)):
            bars = [(s[1] / unit[1], (s[2] - s[1]) / unit[1]) for s in line.spans if s[0] == device and s[3] == kind]
            looks = {"facecolors": colour, "edgecolors": "#ffffff", "linewidth": 0.4}
            axes.broken_barh(bars, (row - height / 2, height), **looks)
    words = f"{line.candidate.name}, {line.at_once} at once" + (f", without {line.left_out}" if line.left_out else "")
    axes.set_title(text.shorten(words, _LABEL), loc="left", fontsize=10)
    axes.set_yticks(range(len(line.rows)), [text.shorten(plain(device), 24) for device in line.rows])
    axes.set_ylim(len(line.rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, line.wall * 1.02 / unit[1])
    axes.set_xlabel(f"time ({unit[0]})")
    axes.set_axisbelow(True)
    axes.grid(axis="x")
