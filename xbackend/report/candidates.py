"""What tables, plots and sentences have in common: candidates grouped by workload and parameters, and the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, Protocol

from xbackend.analysis.statistics import LEVEL as _LEVEL
from xbackend.analysis.statistics import Floor, Ratio, Verdict, noise_floor, ratio, time_of
from xbackend.errors import UsageError
from xbackend.report.text import as_float
from xbackend.results.schema import Measurement, Process, Results, key_of
from xbackend.wording import counted, join, pairs, plain, value

# The baseline where the reader names none: the oracle's backend, if it was measured.
DEFAULT_BASELINE = "numpy"
LEVEL = f"{100 * _LEVEL:.0f} % interval"

PHASES = (
    "process_start",
    "framework_import",
    "trace",
    "lower",
    "first_call",
    "host_to_device",
    "call",
    "device_to_host",
)
_COMPILING = ("trace", "lower", "first_call")


@dataclass(frozen=True)
class Candidate:
    """A measurement with the figures that a report derives from it; all times in seconds."""

    measurement: Measurement

    @property
    def label(self) -> str:
        """The backend, and the environment where it is not the locked one: ``pytensor (pytensor==2.38.3)``."""
        return label(self.measurement)

    @property
    def name(self) -> str:
        """The label and how many devices it had."""
        return f"{self.label} on {counted(self.measurement.devices, 'device')}"

    @property
    def processes(self) -> Sequence[Process]:
        """The processes that finished at least one round."""
        return [p for p in self.measurement.processes if p.rounds]

    @cached_property
    def medians(self) -> tuple[float, ...]:
        """The median of each process; none for a measurement that is not ok, which gives no evidence."""
        return tuple(p.median for p in self.processes) if self.measurement.status == "ok" else ()

    @cached_property
    def time(self) -> float | None:
        """The geometric mean of the processes' medians, which ratios are of; `None` without one."""
        return time_of(self.medians) if self.medians else None

    @property
    def usable(self) -> bool:
        """Whether the time can be compared: there is one, finite and above zero."""
        return self.time is not None and math.isfinite(self.time) and self.time > 0

    @property
    def gflops(self) -> float | None:
        """10^9 operations of the program per second; `None` without a time or a count of operations."""
        if self.time is None or not self.usable or not self.measurement.operations:
            return None
        return as_float(self.measurement.operations) / self.time / 1e9

    @property
    def spread(self) -> tuple[float, float] | None:
        """The smallest and the largest median of a process."""
        return (min(self.medians), max(self.medians)) if self.medians else None

    @property
    def compile_time(self) -> float | None:
        """The median over the processes of trace, lower and first call together; phases that did not happen count 0."""
        sums = []
        for process in self.processes:
            parts = [getattr(process.phases, phase) for phase in _COMPILING]
            happened = [part for part in parts if part is not None]
            if happened:
                sums.append(sum(happened))
        return median(sums) if sums else None

    def phase(self, name: str) -> float | None:
        """The median of a phase over the processes in which it happened."""
        found = [getattr(p.phases, name) for p in self.processes]
        happened = [seconds for seconds in found if seconds is not None]
        return median(happened) if happened else None


class _Named(Protocol):
    """A measurement, an A/A pair, or what else is of a backend in an environment."""

    @property
    def backend(self) -> str: ...

    @property
    def environment(self) -> str: ...


def label(measurement: _Named) -> str:
    """The backend of a measurement, and its environment where it is not the locked one."""
    environment = plain(measurement.environment)
    return plain(measurement.backend) + (f" ({environment})" if environment else "")


def compared(
    candidate: Candidate, baseline: Candidate | None, floor: Floor, earlier: Sequence[float] = ()
) -> Ratio | None:
    """The time of a candidate over that of the baseline; `None` where one of them has none that can be divided.

    ``earlier`` are the candidate's times in earlier sessions, where the two are of different ones.
    """
    if baseline is None or not (candidate.usable and baseline.usable):
        return None
    found = ratio(candidate.medians, baseline.medians, floor=floor.factor, earlier=earlier)
    return found if math.isfinite(found.value) else None


_UNKNOWN = Floor()


@dataclass(frozen=True)
class Group:
    """The candidates of one workload with the same parameters, in the order of the results.

    ``floor`` is the noise floor of comparisons among them.
    """

    workload: str
    parameters: dict[str, Any]
    label: str
    candidates: tuple[Candidate, ...]
    baseline: Candidate | None
    baseline_note: str
    floor: Floor = _UNKNOWN

    @property
    def title(self) -> str:
        """The workload and all its parameters."""
        text = pairs(self.parameters)
        return f"{plain(self.workload)}: {text}" if text else plain(self.workload)

    @cached_property
    def ranked(self) -> list[Candidate]:
        """Those that have a usable time, the smallest first."""
        return sorted((c for c in self.candidates if c.usable), key=lambda c: c.time or 0.0)

    def against_baseline(self, candidate: Candidate) -> Ratio | None:
        """The ratio of a candidate to the baseline; `None` where there is none."""
        return compared(candidate, self.baseline, self.floor)

    @cached_property
    def against_first(self) -> list[tuple[Candidate, Ratio | None]]:
        """All other candidates with a time, and the ratio of the fastest one's time to theirs."""
        return [(other, compared(self.ranked[0], other, self.floor)) for other in self.ranked[1:]]

    @property
    def rivals(self) -> list[Candidate]:
        """Those that the candidate with the smallest time is not shown to be faster than; without any, it wins."""
        return [other for other, found in self.against_first if found is None or found.verdict is not Verdict.FASTER]


def groups(results: Results, baseline: str | None) -> list[Group]:
    """The measurements by workload and parameters, each group with its baseline.

    ``baseline`` is a backend, an environment (``pytensor==2.38.3``), or both as in a `label`. Raises `UsageError`,
    which lists those there are, if it was not measured at all.
    """
    measured = list(dict.fromkeys(name for m in results.measurements for name in _names(m)))
    if baseline is not None and baseline not in measured:
        there = f"there is {join(map(plain, measured))}" if measured else "nothing was measured"
        raise UsageError(f"the baseline {plain(baseline)!r} is not in the results {plain(results.name)!r}; {there}")
    found: dict[tuple[str, str], list[Measurement]] = {}
    for measurement in results.measurements:
        found.setdefault((measurement.workload, key_of(measurement.parameters)), []).append(measurement)
    parts = list(found.values())
    return [
        _group(part, _label(part[0], (p[0] for p in parts)), baseline, noise_floor(results.pairs, part[0]))
        for part in parts
    ]


def _names(measurement: Measurement) -> tuple[str, ...]:
    """What a reader may call a measurement by."""
    named = (measurement.environment, label(measurement)) if measurement.environment else ()
    return (measurement.backend, *named)


def _label(one: Measurement, others: Iterable[Measurement]) -> str:
    """The workload with those parameters that tell it from the other groups."""
    rest = [m.parameters for m in others if m.workload == one.workload]
    telling = {k: v for k, v in one.parameters.items() if any(k not in p or value(p[k]) != value(v) for p in rest)}
    return " ".join([plain(one.workload), *([pairs(telling)] if telling else [])])


def _group(measurements: list[Measurement], words: str, baseline: str | None, floor: Floor) -> Group:
    candidates = tuple(map(Candidate, measurements))
    chosen, note = _baseline(candidates, baseline)
    return Group(measurements[0].workload, measurements[0].parameters, words, candidates, chosen, note, floor)


def _baseline(candidates: tuple[Candidate, ...], name: str | None) -> tuple[Candidate | None, str]:
    """The baseline among these candidates, and why it is that one or none."""
    usable = [c for c in candidates if c.usable]
    wanted = [c for c in usable if (DEFAULT_BASELINE if name is None else name) in _names(c.measurement)]
    if wanted:
        # The locked environment before others, as it is what the backend's name alone means.
        fewest = min(wanted, key=lambda c: (c.measurement.devices, c.measurement.environment != ""))
        return fewest, "as asked for" if name is not None else "the default"
    if name is not None:
        return None, f"{plain(name)}, the baseline asked for, has no time here, so there are no ratios"
    if usable:
        return usable[0], f"the first that gave results, as {DEFAULT_BASELINE} gave none"
    return None, "nothing gave results, so there are no ratios"
