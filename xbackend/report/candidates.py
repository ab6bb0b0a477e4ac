"""What tables, plots and sentences have in common: candidates grouped by workload and parameters, and the baseline."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from xbackend.errors import UsageError
from xbackend.measure.results import Measurement, Process, Results
from xbackend.report.text import as_float, counted, join, pairs, plain, value

# The baseline where the reader names none: the oracle's backend, if it was measured.
DEFAULT_BASELINE = "numpy"

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
    def name(self) -> str:
        """The backend and how many devices it had."""
        return f"{plain(self.measurement.backend)} on {counted(self.measurement.devices, 'device')}"

    @property
    def processes(self) -> Sequence[Process]:
        """The processes that finished at least one round."""
        return [p for p in self.measurement.processes if p.rounds]

    @cached_property
    def medians(self) -> tuple[float, ...]:
        """The median of each process; none for a measurement that is not ok, which gives no evidence."""
        return tuple(p.median for p in self.processes) if self.measurement.status == "ok" else ()

    @property
    def median(self) -> float | None:
        """The median of the processes' medians; `None` without one."""
        return median(self.medians) if self.medians else None

    @property
    def usable(self) -> bool:
        """Whether the median can be compared: there is one, finite and above zero."""
        middle = self.median
        return middle is not None and math.isfinite(middle) and middle > 0

    @property
    def gflops(self) -> float | None:
        """10^9 operations of the program per second at the median; `None` without a median or a count of operations."""
        middle = self.median
        if middle is None or not self.usable or not self.measurement.operations:
            return None
        return as_float(self.measurement.operations) / middle / 1e9

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

    def ratio(self, baseline: Candidate | None) -> float | None:
        """This median divided by the baseline's: below 1 is faster. `None` where one of them has none."""
        if baseline is None or not (self.usable and baseline.usable):
            return None
        mine, its = self.median, baseline.median
        return mine / its if mine is not None and its is not None else None


@dataclass(frozen=True)
class Group:
    """The candidates of one workload with the same parameters, in the order of the results."""

    workload: str
    parameters: dict[str, Any]
    label: str
    candidates: tuple[Candidate, ...]
    baseline: Candidate | None
    baseline_note: str

    @property
    def title(self) -> str:
        """The workload and all its parameters."""
        text = pairs(self.parameters)
        return f"{plain(self.workload)}: {text}" if text else plain(self.workload)

    @cached_property
    def ranked(self) -> list[Candidate]:
        """Those that have a usable median, the smallest first."""
        return sorted((c for c in self.candidates if c.usable), key=lambda c: c.median or 0.0)


def groups(results: Results, baseline: str | None) -> list[Group]:
    """The measurements by workload and parameters, each group with its baseline.

    ``baseline`` is a backend. Raises `UsageError`, which lists the backends there are, if it was not measured at all.
    """
    measured = list(dict.fromkeys(m.backend for m in results.measurements))
    if baseline is not None and baseline not in measured:
        there = f"there is {join(map(plain, measured))}" if measured else "nothing was measured"
        raise UsageError(f"the baseline {plain(baseline)!r} is not in the results {plain(results.name)!r}; {there}")
    found: dict[tuple[str, str], list[Measurement]] = {}
    for measurement in results.measurements:
        key = json.dumps(measurement.parameters, sort_keys=True, default=str)
        found.setdefault((measurement.workload, key), []).append(measurement)
    parts = list(found.values())
    return [_group(part, _label(part[0], (p[0] for p in parts)), baseline) for part in parts]


def _label(one: Measurement, others: Iterable[Measurement]) -> str:
    """The workload with those parameters that tell it from the other groups."""
    rest = [m.parameters for m in others if m.workload == one.workload]
    telling = {k: v for k, v in one.parameters.items() if any(k not in p or value(p[k]) != value(v) for p in rest)}
    return " ".join([plain(one.workload), *([pairs(telling)] if telling else [])])


def _group(measurements: list[Measurement], label: str, baseline: str | None) -> Group:
    candidates = tuple(map(Candidate, measurements))
    chosen, note = _baseline(candidates, baseline)
    return Group(measurements[0].workload, measurements[0].parameters, label, candidates, chosen, note)


def _baseline(candidates: tuple[Candidate, ...], name: str | None) -> tuple[Candidate | None, str]:
    """The baseline among these candidates, and why it is that one or none."""
    usable = [c for c in candidates if c.usable]
    wanted = [c for c in usable if c.measurement.backend == (DEFAULT_BASELINE if name is None else name)]
    if wanted:
        fewest = min(wanted, key=lambda c: c.measurement.devices)
        return fewest, "as asked for" if name is not None else "the default"
    if name is not None:
        return None, f"{plain(name)}, the baseline asked for, has no median here, so there are no ratios"
    if usable:
        return usable[0], f"the first that gave results, as {DEFAULT_BASELINE} gave none"
    return None, "nothing gave results, so there are no ratios"
