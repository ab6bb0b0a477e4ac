"""What is measured: a case on a backend with devices, and what its processes have shown so far."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np

from xbackend import workloads
from xbackend.analysis.comparison import compilation
from xbackend.api.tracing.repeated import TWICE, check_repeated
from xbackend.api.tracing.trace import trace
from xbackend.backends.description import Description
from xbackend.devices import DeviceMap
from xbackend.errors import ArgumentError
from xbackend.measure import matrix
from xbackend.measure.loop import hash_of
from xbackend.measure.measured import Measured
from xbackend.measure.oracle import Expected, expected
from xbackend.measure.worker import Worker
from xbackend.program.host import host_array
from xbackend.program.program import Program
from xbackend.results import naming
from xbackend.results.naming import FILE, GRADIENT
from xbackend.results.schema import UNPROVEN, Measurement, Parity, Process, typical
from xbackend.wording import REST, counted
from xbackend.workloads.workload import Workload, taken

OUTLIER = 1.25  # times the median of all processes: five times their usual difference
WARM = (1, 3, 5)  # numbers, from 0, of the processes that compile from the cache on disk: three give a verdict
AWAKE = 0.02  # of a core: the parent's limit while a worker measures
_NOTHING = Program("nothing", (), (), ())


@dataclass(frozen=True, eq=False, kw_only=True)
class Case(Expected):
    """A workload with all its parameters, its inputs and its expected results, traced once for all backends.

    ``seconds`` is the time of tracing. Each ``revision`` has its own processes. ``devices_map`` binds the program's
    devices. A case that no backend can measure has the reason in ``refused``, and no program.
    """

    workload: str
    parameters: dict[str, Any]
    program: Program = _NOTHING
    text: str = ""
    seconds: float = 0.0
    inputs: Sequence[np.ndarray] = ()
    revision: str = ""
    devices_map: DeviceMap = field(default_factory=DeviceMap)
    refused: str = ""

    def bound(self, devices: DeviceMap) -> Case:
        """The case with these bindings; its parameters show those of devices that it uses."""
        used = {node.device for node in self.program.values}
        own = DeviceMap({name: device for name, device in devices.items() if name in used})
        said = {**self.parameters, "devices_map": str(own)} if own else self.parameters
        return replace(self, devices_map=devices, parameters=said)

    @property
    def label(self) -> str:
        """As in ``matpow size=512, n=10, dtype=float32, method=chain``."""
        return naming.described(self.workload, self.parameters)

    @property
    def compared(self) -> str:
        """The label without the revision: candidates with the same one are compared, and take turns."""
        rest = {name: value for name, value in self.parameters.items() if value != self.revision}
        return naming.described(self.workload, rest if self.revision else self.parameters)

    def is_same(self, other: Case) -> bool:
        """Whether it is the same program on the same inputs, to the last bit."""
        ours, theirs = (hash_of(one.inputs) for one in (self, other))
        return (self.text, self.parameters, ours) == (other.text, other.parameters, theirs)


def case(workload: str, **parameters: Any) -> Case:
    """A workload of `xbackend.workloads`, by its name, with the seed 0; raises as `made` does."""
    return made(workloads.get(workload), parameters)


def made(workload: Workload, parameters: Mapping[str, Any], *, gradient: bool = False, seed: int = 0) -> Case:
    """Trace a workload with its own inputs: its value or, with ``gradient``, that and its gradient.

    Raises `WorkloadError` for a parameter that does not exist or a value that it cannot have, `ArgumentError` for
    inputs that no memory holds, and what tracing raises.
    """
    resolved = workload.resolve(**parameters)
    inputs = workload.arrays(seed, **resolved)
    return _traced(workload, inputs, resolved, gradient=gradient)


def given(workload: Workload, arrays: Sequence[Any], static: Mapping[str, Any], *, gradient: bool = False) -> Case:
    """Trace a workload with given inputs, which its parameters describe: ``arrays`` are anything that NumPy makes an
    array of, ``static`` the keyword arguments.

    Without an oracle of its own, NumPy's results in float64 are expected. Raises `ArgumentError` where there are none
    or an argument does not exist, and what tracing raises.
    """
    unknown = sorted(set(static) - set(taken(workload.function, static)))
    if unknown:
        raise ArgumentError(f"{workload.name} has no argument {', '.join(unknown)} to be set")
    workload.check_numbers(static)
    inputs = [host_array(array, f"argument {i} of {workload.name}") for i, array in enumerate(arrays)]
    case = _traced(workload, inputs, static, gradient=gradient)
    shapes = ", ".join(f"{a.dtype.name}{list(a.shape)}" for a in inputs)
    return replace(case, parameters={"inputs": shapes, **case.parameters})


def derivatives(workload: Workload, gradient: bool | None) -> list[bool]:
    """For each case of a workload whether it is with its gradient: the value and, if the workload has a gradient, the
    value with it; only one of the two where ``gradient`` says which."""
    return [gradient] if gradient is not None else [False, True] if workload.gradient else [False]


def of_file(one: Case, file: str) -> Case:
    """The case with its file as a parameter: functions of one name from two files are two."""
    return replace(one, parameters={FILE: file, **one.parameters})


def seen_from(folder: Path, path: Path) -> str:
    """The path of a file, relative to a folder if it lies below, else absolute."""
    path, folder = path.resolve(), folder.resolve()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def said(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as results hold them: numbers and text, anything else as its repr."""
    plain = {key: v.item() if isinstance(v, np.generic) else v for key, v in parameters.items()}
    return {key: v if isinstance(v, bool | int | float | str) else repr(v)[:80] for key, v in plain.items()}


def _traced(workload: Workload, inputs: Sequence[np.ndarray], parameters: Mapping[str, Any], *, gradient: bool) -> Case:
    start = time.perf_counter()
    function = workload.traced(parameters, gradient)
    program = trace(function, *inputs)
    seconds = time.perf_counter() - start
    if seconds < TWICE:  # the check of `trace_twice`, not clocked
        check_repeated(program, function, *inputs)
    return Case(
        workload=workload.name + (GRADIENT if gradient else ""),
        parameters=said(parameters),
        program=program,
        text=program.to_json(),
        seconds=seconds,
        inputs=inputs,
        **vars(expected(workload, program, inputs, parameters, gradient=gradient)),
    )


@dataclass(frozen=True)
class Group:
    """Cases that share a process: of one backend, revision, environment and number of devices."""

    backend: str
    devices: int
    environment: str = ""
    revision: str = ""

    @property
    def label(self) -> str:
        """As in ``pytensor (pytensor==2.38.3) | 2 devices``."""
        name = naming.label(self.backend, self.environment)
        revision = f" | {self.revision}" if self.revision else ""
        return f"{name} | {counted(self.devices, 'device')}{revision}"


@dataclass(eq=False)
class Candidate:
    """A case on a backend with so many devices, and what was found out about it so far.

    ``environment`` is another version of its framework than the locked one, such as ``pytensor==2.38.3``.
    """

    case: Case
    backend: str
    devices: int
    environment: str = ""
    status: str = "ok"
    reason: str = ""
    bindings: dict[str, str] = field(default_factory=dict)
    parity: Parity | None = None
    processes: list[Process] = field(default_factory=list)
    placement: dict[str, Any] = field(default_factory=dict)
    description: Description = field(default_factory=Description)
    warnings: list[str] = field(default_factory=list)
    unprofiled: str = ""
    memory_unknown: str = ""

    def __post_init__(self) -> None:
        if self.case.refused:
            self.fail("failed", self.case.refused)

    @property
    def group(self) -> Group:
        return Group(self.backend, self.devices, self.environment, self.case.revision)

    @property
    def label(self) -> str:
        return f"{self.case.label} | {self.group.label}"

    @property
    def times(self) -> list[float]:
        """Seconds: one for each process."""
        return [process.time for process in self.processes]

    def cold(self, most: float) -> bool:
        """Whether its next process compiles with an empty cache of compiled code.

        The first process compiles cold, those of `WARM` do not. The others do, until compiling cold took ``most``
        seconds.
        """
        number = len(self.processes)
        if number in WARM:
            return False
        took = sum(compilation(p for p in self.processes if p.cache != "warm"))
        return not number or took < most

    def fail(self, status: str, reason: str) -> None:
        """Take the candidate out; a wrong or unproven result loses its seconds."""
        self.status, self.reason = status, reason
        if status in UNPROVEN:
            self.processes = []

    def note(self, measured: Measured, worker: Worker, threads: int, pinned: bool) -> None:
        """Note the findings of a process, but for the seconds. Each device is to compute with ``threads``; ``pinned``:
        the process has so many cores for each device."""
        # Only now do all pools of threads exist.
        self.description = worker.backend.describe()
        self.placement = measured.placement
        self.warnings += thread_warnings(self.description, threads, pinned)
        self.warnings += filter(None, [self.description.notes.get("cores")])
        self.warnings += measured.warnings
        if measured.relative_error is not None:
            earlier = self.parity
            ulps = [measured.ulps, *([earlier.ulps] if earlier else [])]
            known = [u for u in ulps if u is not None]
            self.parity = Parity(
                relative_error=max(measured.relative_error, earlier.relative_error if earlier else 0.0),
                tolerance=measured.tolerance,
                inputs=measured.inputs,
                ulps=max(known) if len(known) == len(ulps) else None,  # one that is not finite is above all others
                derived=self.case.derived,
            )
        if measured.wrong:
            self.fail(measured.status, measured.wrong)

    def measurement(self, processes: Sequence[Process] | None = None) -> Measurement:
        """The row of the results, with these processes or with all."""
        operations = self.case.program.operations
        doubts = [*disturbed_warnings(self.processes), *outlier_warnings(self.processes)]
        return Measurement(
            workload=self.case.workload,
            parameters=self.case.parameters,
            program=self.case.program.fingerprint,
            backend=self.backend,
            devices=self.devices,
            bindings=self.bindings,
            status=self.status,
            reason=self.reason,
            operations=operations.total,
            operations_by_op=dict(operations.by_op),
            parity=self.parity,
            processes=_drawn(self.processes if processes is None else processes),
            placement=self.placement,
            description=self.description,
            warnings=list(dict.fromkeys([*self.warnings, *doubts])),
            unprofiled=self.unprofiled,
            memory_unknown=self.memory_unknown,
            environment=self.environment,
            # The process's own answer wins.
            versions={**matrix.versions(self.backend, self.environment), **self.description.versions},
        )


def _drawn(processes: Sequence[Process]) -> list[Process]:
    """The processes, with the spans of the most typical profile only: enough for a picture."""
    kept = typical([p.profile for p in processes if p.profile is not None])
    return [
        p
        if p.profile is None or p.profile is kept
        else msgspec.structs.replace(p, profile=msgspec.structs.replace(p.profile, spans=[]))
        for p in processes
    ]


def thread_warnings(description: Description, threads: int, pinned: bool = False) -> Iterator[str]:
    """A pool with more threads than asked for, unless ``pinned`` to fewer cores; or only smaller pools."""
    pools = {name: count for name, count in description.threads.items() if count is not None}
    more = [f"{name} {count}" for name, count in pools.items() if count > threads and not pinned]
    if more:
        yield f"{', '.join(more)} threads, {threads} were asked for: the comparison is not fair"
    elif pools and max(pools.values()) < threads:
        yield f"at most {max(pools.values())} threads compute, {threads} were asked for"


def affinity_warnings(used: Sequence[int] | None, cores: Sequence[int] | None) -> Iterator[str]:
    """Threads that may use other cores than the process is to have."""
    if used is not None and cores is not None and list(used) != list(cores):
        have, want = (", ".join(map(str, some)) for some in (used, cores))
        yield f"its threads may use the cores {have}, the others' {want}: the comparison is not fair"


def disturbed_warnings(processes: Sequence[Process]) -> Iterator[str]:
    """Processes that others disturbed during all of their visits."""
    used = [p.foreign_cores or 0.0 for p in processes if p.disturbed]
    if used:
        during = f"all through {len(used)} of {len(processes)} processes"  # without a singular: alike are gathered
        yield f"other programs used up to {max(used):.1f} cores {during}: {REST}"


def outlier_warnings(processes: Sequence[Process]) -> Iterator[str]:
    """Processes that took far longer or shorter than the others. They count like any other."""
    middle = median([p.time for p in processes]) if processes else 0.0
    far = [p.time / middle for p in processes if not 1 / OUTLIER < p.time / middle < OUTLIER]
    if far and len(processes) > 2:
        times = ", ".join(f"{factor:.2g}" for factor in far)
        yield f"{len(far)} of {len(processes)} processes took {times} times as long as usual: {REST}"


def awake_warnings(own: float, seconds: float) -> Iterator[str]:
    """Whether this process, which is to sleep meanwhile, computed for ``own`` of the ``seconds`` of a measurement."""
    if seconds >= 1.0 and own >= AWAKE * seconds:
        yield (
            f"the process that started the measurement used {own / seconds:.2f} cores meanwhile: let nothing else run "
            "in it"
        )


def accelerator_warnings(processes: Sequence[str] | None) -> Iterator[str]:
    """Somebody else on the GPU."""
    if processes:
        yield f"others computed on the GPU when it started ({'; '.join(processes)}): end them and measure again"
