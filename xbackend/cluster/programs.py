"""The programs of a job's tasks: the function traced for each and cut in parts. Tasks share the servers' variables."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xbackend.api.tracing.repeated import trace_twice
from xbackend.api.tracing.trace import trace
from xbackend.cluster import parts
from xbackend.cluster.job import GuardFor, Job
from xbackend.cluster.parts import Apply, Parts
from xbackend.cluster.starting import TaskBackend
from xbackend.devices import Device, DeviceMap
from xbackend.engines.contract import Engine
from xbackend.engines.record import Layout, ServerVariable
from xbackend.engines.spec import SERVER, WORKER, ClusterSpec, Task
from xbackend.errors import ClusterError
from xbackend.program.binding import bind, bound
from xbackend.program.program import Program
from xbackend.program.serialization import to_json
from xbackend.program.shared import SharedVariable
from xbackend.wording import join

Shapes = tuple[tuple[tuple[int, ...], str], ...]
_LOAD = "xbackend.engines.member:load"


@dataclass(frozen=True)
class WorkerProgram:
    """A worker's program, traced and cut in parts."""

    task: Task
    program: Program
    parts: Parts


class Programs:
    """The programs of every worker, by the shapes of its arguments.

    Raises `ClusterError` for a job beyond the engine, and for variables that differ between tasks.
    """

    def __init__(
        self, job: Job, spec: ClusterSpec, engine: type[Engine], *, asynchronous: bool, guard: GuardFor
    ) -> None:
        self.job, self.engine, self.asynchronous, self.guard = job, engine, asynchronous, guard
        engine.check(spec, asynchronous=asynchronous)
        self.workers = len(spec.jobs[WORKER])
        self.servers = len(spec.jobs.get(SERVER, ()))
        self._asking: dict[int, threading.Lock] = {}
        self._traced: dict[tuple[int, Shapes], WorkerProgram] = {}
        self._own: dict[tuple[int, str], SharedVariable] = {}
        self._stored: dict[int, dict[str, SharedVariable]] = {n: {} for n in range(self.servers)}

    def arrays(self, task: Task, number: int) -> list[np.ndarray]:
        """The arguments of a task at a step. Each task has a lock: a call from before its restart may still run."""
        with self._asking.setdefault(task.index, threading.Lock()), self.guard(f"the data of {self.job.name}"):
            return self.job.arrays(task, number)

    def of(self, task: Task, arrays: Sequence[np.ndarray]) -> WorkerProgram:
        """The program of a task for arrays of these shapes."""
        key = task.index, shapes(arrays)
        if key not in self._traced:
            with self.guard(self.job.name):
                # Its side effects are the same for each task and shape: look for them once.
                program = (trace if self._traced else trace_twice)(self.job.of(task), *arrays)
            program = replace(program, name=self.job.name, shared=self._known(task, program))
            cut = parts.split(program, self.servers)
            self._check(task, program, cut)
            self._traced[key] = WorkerProgram(task, program, cut)
        return self._traced[key]

    def _known(self, task: Task, program: Program) -> dict[int, SharedVariable]:
        found, seen = {}, dict[str, str]()
        for i, variable in program.shared.items():
            at = f"at {program.values[i].source}"
            if variable.unnamed:
                raise ClusterError(
                    f"{variable!r}: tasks, checkpoints and the programs for batches of other shapes know a variable by "
                    f"its name: give it one ({at})"
                )
            if seen.setdefault(variable.name, variable.uid) != variable.uid:
                raise ClusterError(
                    f"{task} has two variables of the name {variable.name!r}: tasks, checkpoints and servers know them "
                    f"by their names; give each its own ({at})"
                )
            server = parts.server_of(variable.device)
            if server is None:
                found[i] = self._own.setdefault((task.index, variable.name), variable)
                continue
            if self.engine.no_servers:
                raise ClusterError(f"no parameter servers here: {self.engine.no_servers} ({variable!r}, {at})")
            if server >= self.servers:
                raise ClusterError(
                    f"{variable!r}: of parameter servers {parts.no_more(self.servers)}: --ps {server + 1}, or leave "
                    f"its device out, and each worker has its own, as in examples/p10_distributed.py:mirrored ({at})"
                )
            first = self._stored[server].setdefault(variable.name, variable)
            if (first.shape, first.dtype) != (variable.shape, variable.dtype) or not np.array_equal(
                first.value, variable.value, equal_nan=variable.dtype.is_floating
            ):
                raise ClusterError(
                    f"{variable!r} is one for all tasks, and begins in {task} with other numbers than in another, "
                    f"{first.dtype}{list(first.shape)} there ({at})"
                )
            found[i] = first
        return found

    def _check(self, task: Task, program: Program, cut: Parts) -> None:
        if not self.asynchronous:
            return
        for node in program.values:
            if node.op == "all_reduce" and node.params["tasks"] > 1:
                raise ClusterError(
                    f"an all-reduce across tasks keeps them in step, and --asynchronous does not (at {node.source})"
                )
        if cut.own.updates:
            names = [cut.own.shared[i].name for i in cut.own.updates]
            source = cut.own.values[next(iter(cut.own.updates.values()))].source
            raise ClusterError(
                f"{task} updates {join(names)}, which is its own: what an asynchronous task has of itself is lost with "
                f"it; keep it on a parameter server, device='/job:{SERVER}/task:0' (at {source})"
            )

    @property
    def layouts(self) -> list[Layout]:
        """The layouts of the servers' records, for the tasks traced so far."""
        found = []
        for n, stored in self._stored.items():
            variables = tuple(ServerVariable(v.name, v.shape, v.dtype.value) for _, v in sorted(stored.items()))
            found.append(Layout(n, self.servers, self.workers, variables))
        return found

    def records(self) -> list[np.ndarray]:
        """The servers' records before the first update."""
        return [one.new({name: v.value for name, v in self._stored[one.server].items()}) for one in self.layouts]

    def own(self, task: Task) -> list[SharedVariable]:
        """A task's own variables, which no server has."""
        return [v for (index, _), v in sorted(self._own.items()) if index == task.index]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of all programs so far and of the number of tasks."""
        own = sorted((index, one.program.fingerprint) for (index, _), one in self._traced.items())
        return hashlib.sha256(repr((self.workers, self.servers, own)).encode()).hexdigest()


def shapes(arrays: Sequence[np.ndarray]) -> Shapes:
    return tuple((array.shape, array.dtype.str) for array in arrays)


@dataclass
class ProgramHandle:
    """A worker's program in the process that computes it. ``held`` refers to it there. ``reduced`` describes the arrays
    of its all-reduces with the other workers. ``taken``: it has taken a step."""

    held: Any
    reduced: tuple[tuple[str, ...], ...] = ()
    taken: bool = False


def loaded(backend: TaskBackend, traced: WorkerProgram, devices: DeviceMap, *, whole: bool = False) -> ProgramHandle:
    """Bind, cut and build a worker's program on a backend. ``whole``: do not cut it, for a coordinator. Raises
    `ClusterError`, and what `Backend.compile` raises."""
    own, cut = traced.parts.own, traced.parts
    placed = bind(own, bound(own, devices, backend.devices), backend.devices, backend.default_device)
    program = placed.program
    for node, variable in program.shared.items():
        backend.ensure_storage(variable, placed.devices[node])
    # The data flow of a step, as plain data.
    wiring: dict[str, Any] = {
        "worker": traced.task.index,
        "inputs": list(program.inputs),
        "devices": [placed.devices[i] for i in program.inputs],
        "pulled": list(cut.pulled),
        "outputs": list(cut.outputs),
        "applies": [_apply(one) for one in cut.applies],
    }
    if whole:
        wiring["program"] = to_json(program, values=False)
        return ProgramHandle(backend.call(_LOAD, wiring))
    (segments, reduced), nodes = parts.segments(placed), program.values
    wiring["segments"] = [(to_json(one.program, values=False), one.takes, one.gives) for one in segments]
    wiring["reduced"] = [[(i, nodes[i].inputs[0]) for i in level] for level in reduced]
    wiring["results"] = list(program.outputs)
    kinds = tuple(tuple(str(nodes[i].aval) for i in level) for level in reduced)
    return ProgramHandle(backend.call(_LOAD, wiring), kinds)


def _apply(one: Apply) -> dict[str, Any]:
    """The program of a server, as plain data."""
    place = Device("cpu", 0)
    program = to_json(bind(one.program, DeviceMap(), (place,), place).program, values=False)
    return {"pushed": one.pushed, "reads": one.reads, "writes": one.writes, "program": program, "place": place}
