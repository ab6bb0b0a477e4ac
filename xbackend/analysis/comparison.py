"""The measurements and their figures, compared by workload and parameters, against a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from xbackend.analysis.family import Family
from xbackend.analysis.statistics import LEVEL, LOOKED, Ratio, Verdict, interval, time_of
from xbackend.devices import Device, is_device
from xbackend.errors import UsageError
from xbackend.results import naming
from xbackend.results.schema import Measurement, Memory, Process, Results, key_of
from xbackend.wording import counted, grouped, join, pairs, plain, value

ORACLE = "numpy"  # the backend that says what is right, and the baseline where the reader names none
_COMPILING = ("trace", "lower", "first_call")


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a comparison: a measurement with the figures that follow from it; all times in seconds."""

    measurement: Measurement
    #: the kinds of devices that its backend computed on, such as ``gpu``; empty where all have the same
    place: str = ""
    shift: float = 0.0  #: `Family.shift`

    @property
    def of(self) -> str:
        """The backend, and the environment where it is not the locked one."""
        return label(self.measurement)

    @property
    def label(self) -> str:
        """`of`, and the place: ``pytensor (pytensor==2.38.3)``, ``jax on gpu``."""
        return self.of + (f" on {self.place}" if self.place else "")

    @property
    def devices(self) -> int:
        return self.measurement.devices

    @property
    def name(self) -> str:
        """The label and how many devices it had."""
        return f"{self.label}{',' if self.place else ' on'} {counted(self.devices, 'device')}"

    @property
    def processes(self) -> Sequence[Process]:
        """The finished processes, also of a measurement that is not ok."""
        return self.measurement.processes

    @cached_property
    def times(self) -> tuple[float, ...]:
        """Seconds: one for each process; none for a measurement that is not ok, which gives no evidence."""
        return tuple(self.measurement.times) if self.measurement.status == "ok" else ()

    @property
    def generations(self) -> list[int]:
        """The generations of the processes."""
        return generations(self.processes)

    @cached_property
    def time(self) -> float | None:
        """The geometric mean of the processes' times in all generations, the base of ratios; `None` without one."""
        return time_of(self.times) * math.exp(self.shift) if self.times else None

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """The interval of `time`, as `statistics.interval`; `None` where there is none."""
        known = interval(self.times)
        return None if known is None else (known[0] * math.exp(self.shift), known[1] * math.exp(self.shift))

    @property
    def gflops(self) -> float | None:
        """10^9 operations of the program per second; `None` without a time or a count of operations."""
        return self.measurement.operations / self.time / 1e9 if self.time and self.measurement.operations else None

    @cached_property
    def compilations(self) -> tuple[float, ...]:
        """Seconds of trace, lower and first call together, of each process with an empty cache on disk."""
        return tuple(compilation(cold(self.processes)))

    @cached_property
    def from_cache(self) -> tuple[float, ...]:
        """The same of each process that found compiled code on disk."""
        return tuple(compilation(p for p in self.processes if p.cache == "warm"))

    @property
    def memory(self) -> Memory | None:
        """The memory of the process with the median peak of a call; `None` where no process tells."""
        known = sorted((p.memory for p in self.processes if p.memory is not None), key=lambda memory: memory.call)
        return known[(len(known) - 1) // 2] if known else None

    def phase(self, name: str) -> float | None:
        """The median of a phase over the processes in which it happened; one of compilation over the `cold` ones."""
        processes = cold(self.processes) if name in _COMPILING else self.processes
        return median_of(getattr(process.phases, name) for process in processes)


def cold(processes: Iterable[Process]) -> list[Process]:
    """The processes that found no compiled code on disk."""
    return [process for process in processes if process.cache != "warm"]


def compilation(processes: Iterable[Process]) -> list[float]:
    """Seconds of trace, lower and first call together; phases that did not happen count 0, nothing where none did."""
    phases = [[getattr(process.phases, phase) for phase in _COMPILING] for process in processes]
    return [sum(filter(None, parts)) for parts in phases if parts.count(None) < len(parts)]


def median_of(values: Iterable[float | None]) -> float | None:
    """The median of the known values; `None` where none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def label(row: Measurement) -> str:
    """The backend of a measurement, and its environment where it is not the locked one."""
    return plain(naming.label(row.backend, row.environment))


@dataclass(frozen=True)
class Comparison:
    """The measurements of one workload with the same parameters, in the order of the results."""

    workload: str
    parameters: dict[str, Any]
    label: str  #: with the parameters that tell it from the other comparisons
    rows: tuple[Row, ...]
    baseline: Row | None
    baseline_note: str  #: why it is that one or none
    family: Family  #: judges the rows
    cores_per_device: int | None = None  #: of a CPU device; `None` where several share the cores
    accelerators: tuple[str, ...] = ()  #: the machine's, each by its name without the driver's version

    @property
    def title(self) -> str:
        """The workload and all its parameters."""
        return titled(self.workload, self.parameters)

    @cached_property
    def ranked(self) -> list[Row]:
        """The rows with a time, the smallest first."""
        return sorted((row for row in self.rows if row.times), key=lambda row: row.time or 0.0)

    @property
    def ordered(self) -> list[Row]:
        """The rows as `ranked`, then those without a time."""
        return [*self.ranked, *(row for row in self.rows if not row.times)]

    def ratio(self, row: Row, other: Row | None) -> Ratio | None:
        """The time of a row over that of another one: the source of every statement about the two.

        `None` where one of them has no time.
        """
        if other is None or not (row.times and other.times):
            return None
        return self.family.ratio(self.rows.index(row), self.rows.index(other))

    @cached_property
    def itself(self) -> Ratio | None:
        """The baseline against itself, a check of the machine: its second, fourth... process over the others."""
        return self.family.itself(self.rows.index(self.baseline)) if self.baseline is not None else None

    @cached_property
    def against_first(self) -> list[tuple[Row, Ratio]]:
        """All other rows with a time, and the ratio of the fastest one's time to theirs."""
        ratios = [(other, self.ratio(self.ranked[0], other)) for other in self.ranked[1:]]
        return [(other, against) for other, against in ratios if against is not None]

    @property
    def rivals(self) -> list[Row]:
        """The rows that are not shown to be slower than the one with the smallest time."""
        return [other for other, against in self.against_first if against.verdict is not Verdict.FASTER]

    @property
    def winner(self) -> Row | None:
        """The row that is shown to be faster than every other one; `None` if there is none."""
        return self.ranked[0] if len(self.ranked) > 1 and not self.rivals else None

    @property
    def too_few(self) -> bool:
        """Whether a row has too few processes to be told from the one with the smallest time."""
        return any(against.verdict is Verdict.UNKNOWN for _, against in self.against_first)


def level_of(results: Results) -> float:
    """The level of a session's statements."""
    return LOOKED if results.settings.adaptive else LEVEL


def comparisons(results: Results, baseline: str | None = None) -> list[Comparison]:
    """The measurements by workload and parameters, each comparison with its baseline.

    All their statements together err in a part 1 - `LEVEL` of sessions, those of one comparison less often (Šidák).
    ``baseline`` is a backend, an environment (``pytensor==2.38.3``), or both as in a `label`. Raises `UsageError`,
    which lists those there are, if it was not measured at all.
    """
    measured = list(dict.fromkeys(name for m in results.measurements for name in _names(m)))
    if baseline is not None and baseline not in measured:
        there = f"there is {join(map(plain, measured))}" if measured else "nothing was measured"
        raise UsageError(f"the baseline {plain(baseline)!r} is not in the results {plain(results.name)!r}; {there}")
    places, cores = _places(results), results.settings.cores_per_device
    accelerators = tuple(plain(name.partition(" (driver ")[0]) for name in results.machine.accelerators)
    rows_of = (
        ((m.workload, key_of(m.parameters)), Row(m, places.get((label(m), m.devices), "")))
        for m in results.measurements
    )
    groups = [*grouped(rows_of).values()]
    firsts = [rows[0].measurement for rows in groups]
    level = level_of(results) ** (1 / max(sum(sum(bool(row.times) for row in rows) > 1 for rows in groups), 1))
    found = []
    for first, rows in zip(firsts, groups, strict=True):
        family = Family([row.times for row in rows], level, [row.generations for row in rows])
        shifted = tuple(replace(row, shift=family.shift(i)) for i, row in enumerate(rows))
        known, title = _baseline(shifted, baseline), told_apart(first, firsts)
        found.append(Comparison(first.workload, first.parameters, title, shifted, *known, family, cores, accelerators))
    return found


def _places(results: Results) -> dict[tuple[str, int], str]:
    """The kinds of devices of each label with each number of devices, as ``cpu and gpu``: those of its bindings, else
    those of its ops, else those of the label with other numbers. Nothing where all are the same, unless the machine is
    known to have others."""
    kinds: dict[tuple[str, int], set[str]] = {}
    for m in results.measurements:
        ran = m.bindings.values() or (op.executed or op.bound for op in m.evidence.ops)
        own = {Device.parse(device).kind for device in ran if is_device(device)}
        kinds.setdefault((label(m), m.devices), set()).update(own)
    of_label = {name: set().union(*(own for (one, _), own in kinds.items() if one == name)) for name, _ in kinds}
    places = {key: join(sorted(own or of_label[key[0]])) for key, own in kinds.items()}
    return places if results.machine.accelerators or len({*places.values()} - {""}) > 1 else {}


def generations(processes: Iterable[Process]) -> list[int]:
    """The generations of processes; nothing where a process has none."""
    found = [process.generation for process in processes]
    return [] if None in found else [number for number in found if number is not None]


def titled(workload: str, parameters: dict[str, Any]) -> str:
    """A workload and its parameters, as a heading."""
    return plain(workload) + (f": {pairs(parameters)}" if parameters else "")


def size_of(parameters: dict[str, Any]) -> float | None:
    """The size, if it is a positive number."""
    size = parameters.get("size")
    return float(size) if isinstance(size, int | float) and not isinstance(size, bool) and 0 < size < 1e12 else None


def without_size(parameters: dict[str, Any]) -> dict[str, Any]:
    """All other parameters."""
    return {name: item for name, item in parameters.items() if name != "size"}


def _names(row: Measurement) -> list[str]:
    return naming.names(row.backend, row.environment)


def told_apart(one: Measurement, firsts: Iterable[Measurement]) -> str:
    """The workload with the parameters that tell a measurement from these others."""
    rest = [m.parameters for m in firsts if m.workload == one.workload]
    telling = {k: v for k, v in one.parameters.items() if any(k not in p or value(p[k]) != value(v) for p in rest)}
    return naming.described(one.workload, telling)


def _baseline(rows: tuple[Row, ...], name: str | None) -> tuple[Row | None, str]:
    """The baseline among these rows, and why it is that one or none."""
    timed = [row for row in rows if row.times]
    wanted = [row for row in timed if (name or ORACLE) in _names(row.measurement)]
    if wanted:
        # The locked environment before others: the backend's name alone means it.
        fewest = min(wanted, key=lambda row: (row.devices, row.measurement.environment != ""))
        return fewest, "as asked for" if name is not None else "the default"
    if name is not None:
        return None, f"{plain(name)}, the baseline asked for, has no time here, so there are no ratios"
    if timed:
        return timed[0], f"the first that gave results, as {ORACLE} gave none"
    return None, "nothing gave results, so there are no ratios"
