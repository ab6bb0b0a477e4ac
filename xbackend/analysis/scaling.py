"""One device against several: the ledger of a backend, computed from the stored measurements alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import Any

from xbackend.analysis.comparison import Comparison, Row, median_of, size_of, without_size
from xbackend.analysis.statistics import Ratio, Verdict, time_of
from xbackend.devices import Device
from xbackend.results.schema import Profile, key_of

# Kinds of several devices: CPU devices of one process, with their own or with shared cores; or else separate devices,
# of one kind or of several; or none.
KINDS = ("simulated by cores", "sharing cores", "real", "real, not equal", "the program names no device")
SIMULATED, SHARING, REAL, UNEQUAL, UNNAMED = KINDS


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the wall time of a profiled execution, medians over the processes; each is 0 to 1."""

    wall: float  #: seconds
    transfers: float  #: at least one transfer was under way
    exposed: float  #: one was, and no device computed, so that it cost time
    ways: dict[str, float]  #: of the transfers of each way, where accelerators or processes are at an end
    idle: dict[str, float]  #: of each device that was bound or computed, the part without computation
    together: float  #: at least two devices computed
    parts: dict[str, float]  #: of the call, as `Profile.parts`


@dataclass(frozen=True, slots=True)
class Scaling:
    """A workload with the same parameters on one device of a backend and on ``devices``."""

    many: Row
    seconds_of_one: float
    seconds_of_many: float
    ratio: Ratio  #: of the time on several to that on one, with its verdict on several
    kind: str  #: one of `KINDS`
    cores_of_one: float | None  #: that one device alone keeps busy
    foreign_cores: float | None  #: that other processes kept busy, on the busier side
    shares: Shares | None  #: on several devices
    unprofiled: str  #: why there are none

    @property
    def devices(self) -> int:
        return self.many.devices

    @property
    def speedup(self) -> float:
        """The time on one device over that on several."""
        return 1 / self.ratio.value

    @property
    def faster(self) -> bool:
        """Whether several devices are shown to be faster than one."""
        return self.ratio.verdict is Verdict.FASTER

    @property
    def efficiency(self) -> float:
        """Speed-up over the number of devices: 1 where none of them is lost."""
        return self.speedup / self.devices


def scalings(comparison: Comparison) -> list[Scaling]:
    """One for each row on two devices or more whose counterpart on one device has a time, in their order."""
    single, found = {row.of: row for row in comparison.ranked if row.devices == 1}, []
    for many in comparison.rows:
        one, bound = single.get(many.of), many.measurement.bindings.values()
        if many.devices < 2 or one is None or (ratio := comparison.ratio(many, one)) is None:
            continue
        foreign = [median_of(process.foreign_cores for process in row.processes) for row in (one, many)]
        profiles = [process.profile for process in many.processes if process.profile is not None]
        scaling = Scaling(
            many=many,
            seconds_of_one=time_of(one.times),
            seconds_of_many=time_of(many.times),
            ratio=ratio,
            kind=kind_of(bound, comparison.cores_per_device),
            cores_of_one=median_of(process.own_cores for process in one.processes),
            foreign_cores=max((cores for cores in foreign if cores is not None), default=None),
            shares=shares(profiles, bound) if profiles else None,
            unprofiled=many.measurement.unprofiled or "the results hold no profile: measure again with this version",
        )
        found.append(scaling)
    return found


def kind_of(devices: Iterable[str], cores_per_device: int | None) -> str:
    """Which of `KINDS` these devices are together."""
    parsed = [*map(Device.parse, set(devices))]
    cpus = [device for device in parsed if device.kind == "cpu"]
    if len(cpus) > len({(device.job, device.task) for device in cpus}):
        return SHARING if cores_per_device is None else SIMULATED
    if not parsed:
        return UNNAMED
    return REAL if len({device.kind for device in parsed}) == 1 else UNEQUAL


def shares(profiles: Sequence[Profile], bound: Iterable[str]) -> Shares:
    """The shares of profiles (at least one) of the same program; ``bound`` are devices that may not have computed."""
    devices = dict.fromkeys([*bound, *(device for p in profiles for device in p.busy)])
    ways = [profile.ways for profile in profiles]
    parts = {part: median([p.parts[part] for p in profiles]) for part in profiles[0].parts}
    return Shares(
        wall=median([p.wall for p in profiles]),
        transfers=median([p.share(p.transfers) for p in profiles]),
        exposed=median([p.share(p.exposed) for p in profiles]),
        ways={way: median([p.share(p.ways.get(way, 0.0)) for p in profiles]) for way in dict.fromkeys(chain(*ways))},
        idle={name: median([p.share(p.wall - p.busy.get(name, 0.0)) for p in profiles]) for name in devices},
        together=median([p.at_once for p in profiles]),
        parts={part: taken / math.fsum(parts.values()) for part, taken in parts.items()},
    )


@dataclass(frozen=True)
class Sweep:
    """The scalings of a backend that differ in their size only, by size."""

    rest: dict[str, Any]
    label: str
    devices: int
    points: tuple[tuple[float, Scaling], ...]

    @property
    def paying(self) -> list[float]:
        """The sizes at which several devices are shown to be faster than one."""
        return [size for size, s in self.points if s.faster]

    @property
    def costing(self) -> list[float]:
        """The sizes at which they are shown to be slower."""
        return [size for size, s in self.points if s.ratio.verdict is Verdict.SLOWER]

    @property
    def bracket(self) -> tuple[float, float] | None:
        """The measured sizes between which several devices begin or cease to pay, the one where they do not first.

        `None` unless both ends are shown, and they pay at all sizes on the one side of it. No curve is laid through the
        speed-ups: they saturate, and a line through them reaches 1 elsewhere.
        """
        sizes, paying, costing = [size for size, _ in self.points], self.paying, self.costing
        if not paying or not costing:
            return None
        if paying == sizes[-len(paying) :]:
            return max(costing), min(paying)
        return (min(costing), max(paying)) if paying == sizes[: len(paying)] else None


def sweeps(ledger: Iterable[Scaling]) -> list[Sweep]:
    """The scalings by size, of workloads that have one."""
    series: dict[tuple[str, str, str, int], dict[float, Scaling]] = {}
    for scaling in ledger:
        row = scaling.many.measurement
        if (size := size_of(row.parameters)) is not None:
            key = row.workload, key_of(without_size(row.parameters)), scaling.many.label, scaling.devices
            series.setdefault(key, {})[size] = scaling
    found = []
    for (_, _, label, devices), by_size in series.items():
        points = tuple(sorted(by_size.items()))
        found.append(Sweep(without_size(points[0][1].many.measurement.parameters), label, devices, points))
    return found
