"""A session: every candidate measured in fresh processes, in shuffled blocks, and what fails is a row with its reason.

    from xbackend.measure import session
    results = session.compare("matpow", parameters=[{"size": 512}], backends=["numpy", "pytensor"], devices=(1, 2))

One process measures one backend with one number of devices: all workloads and parameters that are asked for, in
shuffled order. A *block* is one process of each; the session is as many blocks as processes are asked for, each in an
order of its own, so that a machine that gets slower meets all alike. The parent sleeps while a worker measures.
"""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import xbackend
from xbackend import workloads
from xbackend.backends import registry
from xbackend.backends.base import Backend
from xbackend.devices import DeviceMap
from xbackend.errors import (
    ArgumentError,
    BackendUnavailable,
    EnvironmentFailed,
    WorkerDied,
    WorkerTimeout,
    XBackendError,
)
from xbackend.measure.loop import Effort
from xbackend.measure.machine import cores, machine
from xbackend.measure.results import Measurement, Parity, Phases, Process, Profile, Results
from xbackend.measure.worker import Worker, open_worker
from xbackend.program.program import Program
from xbackend.program.tracing import trace

# 512 x 512: a call lasts some 20 ms on two cores, long against every framework's own cost and against the clock, and
# ten backends are done in two minutes, most of which are their imports and compilers.
QUICK_SIZE = 512
QUICK = Effort(rounds=15, at_least=5, round_seconds=0.02, seconds=2.0)
FULL = Effort(rounds=30, at_least=10, round_seconds=0.1, seconds=20.0)
PROCESSES = {True: 1, False: 5}  # by quick; five a side give intervals about 15 % wide

Progress = Callable[[str], None]
Opener = Callable[..., Worker]


@dataclass(frozen=True, eq=False)
class Task:
    """A workload with all its parameters, traced once for all backends; ``seconds`` is what tracing took."""

    workload: str
    parameters: dict[str, Any]
    program: Program
    text: str
    seconds: float

    @property
    def label(self) -> str:
        """As in ``matpow size=512 n=10 dtype=float32 method=chain``."""
        return " ".join([self.workload, *(f"{k}={v}" for k, v in self.parameters.items())])


@dataclass(eq=False)
class Candidate:
    """A task on a backend with so many devices, and what was found out about it so far."""

    task: Task
    backend: str
    devices: int
    status: str = "ok"
    reason: str = ""
    bindings: dict[str, str] = field(default_factory=dict)
    parity: Parity | None = None
    processes: list[Process] = field(default_factory=list)
    placement: dict[str, Any] = field(default_factory=dict)
    description: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    unprofiled: str = ""

    @property
    def label(self) -> str:
        return f"{self.task.label} | {self.backend} | {self.devices} device{'s' if self.devices > 1 else ''}"

    def fail(self, status: str, reason: str) -> None:
        """The candidate is out; a result that is wrong takes its seconds along."""
        self.status, self.reason = status, reason
        if status == "wrong":
            self.processes = []

    def measurement(self) -> Measurement:
        """The row of the results."""
        operations = self.task.program.operations
        return Measurement(
            workload=self.task.workload,
            parameters=self.task.parameters,
            backend=self.backend,
            devices=self.devices,
            bindings=self.bindings,
            status=self.status,
            reason=self.reason,
            operations=operations.total,
            operations_by_op=dict(operations.by_op),
            parity=self.parity,
            processes=self.processes,
            placement=self.placement,
            description=self.description,
            warnings=list(dict.fromkeys(self.warnings)),
            unprofiled=self.unprofiled,
        )


def task(workload: str, **parameters: Any) -> Task:
    """Trace a workload. Raises `WorkloadError` for a name or parameter that does not exist, and what tracing raises."""
    source = workloads.get(workload)
    resolved = source.resolve(**parameters)
    inputs = source.inputs(seed=0, **resolved)
    start = time.perf_counter()
    program = trace(source.program(**resolved), *inputs)
    seconds = time.perf_counter() - start
    return Task(workload, resolved, program, program.to_json(), seconds)


def compare(
    workload: str = "matpow",
    *,
    parameters: Iterable[Mapping[str, Any]] = ({},),
    backends: Iterable[str] | None = None,
    devices: Sequence[int] = (1,),
    processes: int | None = None,
    quick: bool = True,
    threads: int | None = None,
    seed: int = 0,
    limit: float | None = 600.0,
    figures: bool = False,
    name: str = "compare",
    on_progress: Progress | None = None,
    opener: Opener = open_worker,
) -> Results:
    """Measure a workload on backends.

    Args:
        workload: its name.
        parameters: for each of these a comparison; with ``quick`` a ``size`` that is not given is 512.
        backends: names of backends, `None` for all.
        devices: for each number, a process with so many (virtual) devices over which the logical ones are spread.
        processes: fresh processes for each backend and number of devices; 1 if ``quick``, else 5.
        quick: fewer and shorter rounds.
        threads: threads of every process, `None` for as many as there are cores.
        seed: of the inputs and of the order.
        limit: seconds that a worker may take for one candidate.
        figures: measure also the figures that the project sets itself, for these backends.
        name: what the results are called.
        on_progress: gets a line of text whenever something begins that may last.

    Raises:
        UnknownBackend, WorkloadError, ArgumentError: before anything is measured.
    """
    chosen = [registry.get(b).name for b in dict.fromkeys(registry.names() if backends is None else backends)]
    count = PROCESSES[quick] if processes is None else processes
    _check_counts(devices=devices, processes=[count])
    tasks = [_task(workload, given, quick) for given in parameters]
    say: Progress = on_progress or (lambda _: None)
    session = Session(
        [Candidate(t, b, d) for t in tasks for d in devices for b in chosen],
        processes=count,
        threads=threads or cores(),
        seed=seed,
        effort=QUICK if quick else FULL,
        limit=limit,
        on_progress=say,
        opener=opener,
    )
    from xbackend.measure import targets

    whole = quick and _whole(session) and targets.ready(chosen)
    session.run()
    found = [targets.quick_comparison(session.seconds, count, len(tasks))] if whole else []
    if figures:
        found += targets.measure(chosen, processes=count, quick=quick, threads=threads, on_progress=say, opener=opener)
    settings = {"quick": quick, "devices": list(devices), "seconds": session.seconds, **session.settings()}
    return session.results(name, settings, found)


def _whole(session: Session) -> bool:
    """Whether it is one process of each backend on one device for one task: of its duration there is a figure."""
    measured = [(c.backend, c.devices) for c in session.candidates]
    return session.processes == 1 and sorted(measured) == sorted((name, 1) for name in registry.names())


def _check_counts(**counts: Sequence[int]) -> None:
    for label, numbers in counts.items():
        if not numbers or any(type(n) is not int or n < 1 for n in numbers):
            raise ArgumentError(f"{label}={numbers!r}: whole numbers from 1 up are needed")


def _task(workload: str, given: Mapping[str, Any], quick: bool) -> Task:
    parameters = dict(given)
    if quick and "size" in workloads.get(workload).parameters:
        parameters.setdefault("size", QUICK_SIZE)
    return task(workload, **parameters)


def blocks(groups: Sequence[Any], processes: int, seed: int) -> list[Any]:
    """The order of the processes: ``processes`` times all groups, each time shuffled anew."""
    order = random.Random(f"blocks {seed}")
    found: list[Any] = []
    for _ in range(processes):
        found += order.sample(groups, len(groups))
    return found


class Session:
    """Measures candidates; see `compare`."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        processes: int,
        threads: int,
        seed: int,
        effort: Effort,
        limit: float | None = 600.0,
        on_progress: Progress = lambda _: None,
        opener: Opener = open_worker,
    ) -> None:
        self.candidates = list(candidates)
        self.processes, self.threads, self.seed, self.effort = processes, threads, seed, effort
        self.limit, self.say, self.opener = limit, on_progress, opener
        self.order: list[str] = []
        self.seconds = 0.0  # what all of it took
        self._hashes: dict[str, str] = {}  # label of a task -> hash of its inputs
        self._within = random.Random(f"within {seed}")

    def run(self) -> None:
        """Measure all; what goes wrong is noted in the candidate that it happened to."""
        groups: dict[tuple[str, int], list[Candidate]] = {}
        for candidate in self.candidates:
            groups.setdefault((candidate.backend, candidate.devices), []).append(candidate)
        plan = blocks(list(groups), self.processes, self.seed)
        began = time.perf_counter()
        for number, key in enumerate(plan):
            left = ""
            if number:
                left = f", about {(time.perf_counter() - began) / number * (len(plan) - number):.0f} s left"
            waiting = [c for c in groups[key] if c.status == "ok"]
            if waiting:
                devices = f"{key[1]} device{'s' if key[1] > 1 else ''}"
                self.say(f"[{number + 1}/{len(plan)}] {key[0]} with {devices}: starting a process{left}")
                self._process(key[0], key[1], self._within.sample(waiting, len(waiting)))
        self.seconds = time.perf_counter() - began

    def _process(self, backend: str, devices: int, waiting: list[Candidate]) -> None:
        """One fresh process for these candidates; another one for the rest if one of them ends it."""
        while waiting:
            started = time.time()
            try:
                worker = self.opener(
                    backend, virtual_devices=devices, threads=self.threads, limit=self.limit, on_progress=self.say
                )
            except XBackendError as error:
                missing = isinstance(error, BackendUnavailable | EnvironmentFailed)
                for candidate in waiting:
                    candidate.fail("missing" if missing else "failed", str(error))
                return
            with worker.backend:
                waiting = self._in_process(worker, waiting, started)

    def _in_process(self, worker: Worker, waiting: list[Candidate], started: float) -> list[Candidate]:
        """Measure in an open worker; the candidates that are left when it has ended early."""
        for position, candidate in enumerate(waiting):
            self.say(f"    {candidate.label}")
            self.order.append(candidate.label)
            try:
                self._measure(worker, candidate, started)
            except (WorkerDied, WorkerTimeout) as error:
                candidate.fail("failed", str(error))
                return waiting[position + 1 :]
            except XBackendError as error:
                candidate.fail("failed", str(error))
        return []

    def _measure(self, worker: Worker, candidate: Candidate, started: float) -> None:
        task, backend = candidate.task, worker.backend
        bindings = bind(task.program, backend, candidate.devices)
        candidate.bindings = {k: str(v) for k, v in bindings.items()}
        job = {
            "program": task.text,
            "bindings": candidate.bindings,
            "workload": task.workload,
            "parameters": task.parameters,
            "seed": self.seed,
            "effort": self.effort.to_dict(),
        }
        found = worker.call("xbackend.measure.loop:measure", job)
        # Afterwards: only now all pools of threads are there.
        candidate.description = backend.describe()
        candidate.warnings += _thread_warnings(candidate.description, self.threads)
        candidate.placement = found["placement"]
        candidate.warnings += found["warnings"]
        self._note_parity(candidate, found)
        if candidate.status == "ok":
            candidate.unprofiled = found["unprofiled"]
            phases = Phases(
                process_start=worker.process_start,
                framework_import=worker.framework_import,
                trace=task.seconds,
                **{k: found[k] for k in ("lower", "first_call", "host_to_device", "call", "device_to_host")},
            )
            candidate.processes.append(
                Process(
                    order=len(self.order) - 1,
                    started=started,
                    iterations=found["iterations"],
                    rounds=found["rounds"],
                    phases=phases,
                    foreign_cores=found["foreign_cores"],
                    own_cores=found["own_cores"],
                    profile=_profile(found["profile"], first=not candidate.processes),
                )
            )

    def _note_parity(self, candidate: Candidate, found: dict[str, Any]) -> None:
        """The largest error over the processes; inputs that differ between processes make the candidate wrong."""
        error, label = found.get("relative_error"), candidate.task.label
        if error is not None:
            worst = max(error, candidate.parity.relative_error if candidate.parity else 0.0)
            candidate.parity = Parity(relative_error=worst, tolerance=found["tolerance"], inputs=found["inputs"])
        if found["status"] != "ok":
            candidate.fail(found["status"], found["reason"])
        elif self._hashes.setdefault(label, found["inputs"]) != found["inputs"]:
            candidate.fail("wrong", f"its inputs are not those of the other processes ({found['inputs'][:12]})")

    def settings(self) -> dict[str, Any]:
        """How it was measured, as plain data."""
        return {
            "processes": self.processes,
            "threads": self.threads,
            "seed": self.seed,
            "effort": self.effort.to_dict(),
            "blocks": "one process of each backend and number of devices, in shuffled order",
        }

    def results(self, name: str, settings: dict[str, Any], figures: Sequence[Any] = ()) -> Results:
        """All rows, in the order of the candidates."""
        return Results(
            name=name,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            xbackend=xbackend.__version__,
            machine=machine(),
            settings=settings,
            order=self.order,
            measurements=[candidate.measurement() for candidate in self.candidates],
            figures=list(figures),
        )


def bind(program: Program, backend: Backend, devices: int) -> DeviceMap:
    """The program's logical devices spread over the backend's first ``devices`` of the default device's kind.

    Raises `DeviceUnavailable` where there are fewer.
    """
    from xbackend.errors import DeviceUnavailable

    kind = backend.default_device.kind
    pool = [d for d in backend.devices if d.kind == kind][:devices]
    if len(pool) < devices:
        raise DeviceUnavailable(
            f"backend {backend.name} has {len(pool)} devices of kind {kind} ({', '.join(map(str, backend.devices))}), "
            f"{devices} were asked for"
        )
    return DeviceMap.spread(program.logical_devices, pool)


def _profile(found: dict[str, Any] | None, first: bool) -> Profile | None:
    """A profile as results hold it; the spans of one process are enough for a picture."""
    if found is None:
        return None
    return Profile(**{**found, "spans": [tuple(span) for span in found["spans"]] if first else []})


def _thread_warnings(description: Mapping[str, Any], threads: int) -> list[str]:
    """A pool with more threads than asked for, or none with as many."""
    pools = {str(k): v for k, v in description.get("threads", {}).items() if isinstance(v, int)}
    more = [f"{name} {count}" for name, count in pools.items() if count > threads]
    warnings = []
    if more:
        warnings.append(f"{', '.join(more)} threads, {threads} were asked for: the comparison is not fair")
    if pools and max(pools.values()) < threads:
        warnings.append(f"at most {max(pools.values())} threads compute, {threads} were asked for")
    return warnings
