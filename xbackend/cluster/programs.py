"""The programs of the tasks of a job: the function traced for each, in parts, with variables that are one where tasks
share them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xbackend.api.repeated import trace_twice
from xbackend.api.trace import trace
from xbackend.backends.contract import Built
from xbackend.cluster import parts
from xbackend.cluster.job import Job
from xbackend.cluster.parts import Parts
from xbackend.cluster.tasks import TaskBackend
from xbackend.devices import Device, DeviceMap
from xbackend.engines.member import plain
from xbackend.engines.record import Layout, Stored
from xbackend.engines.registry import Entry
from xbackend.engines.spec import SERVER, WORKER, ClusterSpec, Task
from xbackend.errors import ClusterError
from xbackend.program.binding import Placed, bind, bound
from xbackend.program.program import Program
from xbackend.program.serialization import to_json
from xbackend.program.shared import SharedVariable
from xbackend.wording import join

Shapes = tuple[tuple[tuple[int, ...], str], ...]
Guard = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Traced:
    """A task's program: as it was traced, and in parts."""

    task: Task
    program: Program
    parts: Parts


class Programs:
    """The programs of every worker, by the shapes of what it is given.

    Raises `ClusterError` for what the engine cannot do, and for variables that tasks do not agree on.
    """

    def __init__(self, job: Job, spec: ClusterSpec, engine: Entry, *, asynchronous: bool, guard: Guard) -> None:
        self.job, self.engine, self.asynchronous, self.guard = job, engine, asynchronous, guard
        spec.check_jobs(engine.coordinated)
        if engine.coordinated and not asynchronous:
            raise ClusterError(
                f"{engine.summary} has tasks that do not wait for each other: any worker that is free takes the next "
                "step of any task; add --asynchronous, or take --engine tensorflow for tasks in step"
            )
        self.workers = len(spec.jobs[WORKER])
        self.servers = len(spec.jobs.get(SERVER, ()))
        if self.servers and engine.no_servers:
            raise ClusterError(f"no parameter servers here: {engine.no_servers}")
        self._asking: dict[int, threading.Lock] = {}
        self._traced: dict[tuple[int, Shapes], Traced] = {}
        self._own: dict[tuple[int, str], SharedVariable] = {}
        self._stored: dict[int, dict[str, SharedVariable]] = {n: {} for n in range(self.servers)}

    def arrays(self, task: Task, number: int) -> list[np.ndarray]:
        """What a task is given at a step. One call at a time for each: when a task is started again, an earlier one may
        not have returned."""
        with self._asking.setdefault(task.index, threading.Lock()), self.guard(f"the data of {self.job.name}"):
            return self.job.arrays(task, number)

    def of(self, task: Task, arrays: Sequence[np.ndarray]) -> Traced:
        """The program of a task for arrays of these shapes."""
        key = task.index, shapes(arrays)
        if key not in self._traced:
            with self.guard(self.job.name):
                # Its side effects are the same for each task and shape: they are looked for once.
                program = (trace if self._traced else trace_twice)(self.job.of(task), *arrays)
            program = replace(program, name=self.job.name, shared=self._known(task, program))
            cut = parts.split(program)
            self._check(task, program, cut)
            self._traced[key] = Traced(task, program, cut)
        return self._traced[key]

    def _known(self, task: Task, program: Program) -> dict[int, SharedVariable]:
        found, seen = {}, dict[str, str]()
        for i, variable in program.shared.items():
            if variable.unnamed:
                raise ClusterError(
                    f"{variable!r}: tasks, checkpoints and the programs for batches of other shapes know a variable by "
                    f"its name: give it one (at {program.nodes[i].source})"
                )
            if seen.setdefault(variable.name, variable.uid) != variable.uid:
                raise ClusterError(
                    f"{task} has two variables of the name {variable.name!r}: tasks, checkpoints and servers know them "
                    f"by their names; give each its own (at {program.nodes[i].source})"
                )
            server = parts.server_of(variable.device)
            if server is None:
                found[i] = self._own.setdefault((task.index, variable.name), variable)
                continue
            if self.engine.no_servers:
                raise ClusterError(
                    f"no parameter servers here: {self.engine.no_servers} ({variable!r}, at {program.nodes[i].source})"
                )
            if server >= self.servers:
                there = f"there are {self.servers}" if self.servers else "there is none"
                raise ClusterError(
                    f"{variable!r}: of parameter servers {there}: --ps {server + 1}, or leave its device out, and each "
                    f"worker has its own, as in examples/p10_distributed.py:mirrored (at {program.nodes[i].source})"
                )
            first = self._stored[server].setdefault(variable.name, variable)
            if (first.shape, first.dtype) != (variable.shape, variable.dtype) or not np.array_equal(
                first.value, variable.value, equal_nan=variable.dtype.is_floating
            ):
                raise ClusterError(
                    f"{variable!r} is one for all tasks, and begins in {task} with other numbers than in another, "
                    f"{first.dtype}{list(first.shape)} there (at {program.nodes[i].source})"
                )
            found[i] = first
        return found

    def _check(self, task: Task, program: Program, cut: Parts) -> None:
        if not self.asynchronous:
            return
        for node in program.nodes:
            if node.op == "all_reduce" and node.params["tasks"] > 1:
                raise ClusterError(
                    f"an all-reduce across tasks keeps them in step, and --asynchronous does not (at {node.source})"
                )
        if cut.own.updates:
            names = [cut.own.shared[i].name for i in cut.own.updates]
            source = cut.own.nodes[next(iter(cut.own.updates.values()))].source
            raise ClusterError(
                f"{task} updates {join(names)}, which is its own: what an asynchronous task has of itself is lost with "
                f"it; keep it on a parameter server, device='/job:{SERVER}/task:0' (at {source})"
            )

    @property
    def layouts(self) -> list[Layout]:
        """Of the servers' records, as far as tasks were traced."""
        return [
            Layout(
                n,
                self.servers,
                self.workers,
                tuple(Stored(v.name, v.shape, v.dtype.value) for _, v in sorted(stored.items())),
            )
            for n, stored in self._stored.items()
        ]

    def records(self) -> list[np.ndarray]:
        """Those of the servers before the first update."""
        return [
            layout.new({name: v.value for name, v in self._stored[layout.server].items()}) for layout in self.layouts
        ]

    def own(self, task: Task) -> list[SharedVariable]:
        """The variables that a task has of its own."""
        return [v for (index, _), v in sorted(self._own.items()) if index == task.index]

    @property
    def fingerprint(self) -> str:
        """Of all programs so far, and of how many tasks there are."""
        own = sorted((index, one.program.fingerprint) for (index, _), one in self._traced.items())
        return hashlib.sha256(repr((self.workers, self.servers, own)).encode()).hexdigest()


def shapes(arrays: Sequence[np.ndarray]) -> Shapes:
    return tuple((array.shape, array.dtype.str) for array in arrays)


@dataclass
class Compiled:
    """A task's program on its backend: the step that stays there, what it reduces with the other tasks, and whether it
    was taken before."""

    step: Any
    reduced: tuple[tuple[str, ...], ...]
    taken: bool = False


def scheduled(
    backend: TaskBackend, traced: Traced, layouts: Sequence[Layout], engine: Entry, devices: DeviceMap
) -> Compiled:
    """As `compiled`, of a task whose program the coordinator has and lets workers compute; ``backend`` is the
    coordinator's."""
    placed = _placed(backend, traced, devices)
    used = set(placed.devices)
    if used - {backend.default_device}:
        raise ClusterError(
            f"{traced.task} uses {join(sorted(map(str, used)))}: by {engine.summary} a step is computed by the worker "
            f"that is free, on its {backend.default_device} alone; take --engine tensorflow, or that device"
        )
    wiring = _wiring(backend, traced, placed, layouts, engine)
    step = backend.call("xbackend.engines.member:scheduled", to_json(placed.program, values=False), wiring)
    return Compiled(step, ())


def _placed(backend: TaskBackend, traced: Traced, devices: DeviceMap) -> Placed:
    """A task's own program, bound, and its variables, stored."""
    own = traced.parts.own
    placed = bind(own, bound(own, devices, backend.devices), backend.devices, backend.default_device)
    for node, variable in placed.program.shared.items():
        backend.ensure_storage(variable, placed.devices[node])
    return placed


def _wiring(
    backend: TaskBackend, traced: Traced, placed: Placed, layouts: Sequence[Layout], engine: Entry
) -> dict[str, Any]:
    """What goes from where to where at a step, as plain data."""
    return {
        "worker": traced.task.index,
        "layouts": [plain(one) for one in layouts],
        "inputs": list(placed.program.inputs),
        "devices": [placed.devices[i] for i in placed.program.inputs],
        "pulled": list(traced.parts.pulled),
        "outputs": [list(place) for place in traced.parts.outputs],
        "applies": [_apply(backend, traced.parts, one.server, engine) for one in layouts],
    }


def compiled(
    backend: TaskBackend, traced: Traced, layouts: Sequence[Layout], engine: Entry, devices: DeviceMap
) -> Compiled:
    """Bind, cut and build a task's program where the task is. Raises what `Backend.compile` raises, `ClusterError`."""
    placed = _placed(backend, traced, devices)
    cut = parts.segments(placed)
    built = [_reference(backend.build(one.program)) if _does(one.program) else None for one in cut.segments]
    nodes = placed.program.nodes
    wiring = {
        **_wiring(backend, traced, placed, layouts, engine),
        "segments": [{"takes": list(one.takes), "gives": list(one.gives)} for one in cut.segments],
        "reduced": [[(i, nodes[i].inputs[0]) for i in level] for level in cut.reduced],
        "results": list(placed.program.outputs),
    }
    step = backend.call("xbackend.engines.member:built", built, wiring)
    return Compiled(step, tuple(tuple(str(nodes[i].aval) for i in level) for level in cut.reduced))


def _apply(backend: TaskBackend, cut: Parts, server: int, engine: Entry) -> dict[str, Any]:
    own, place = next((one for one in cut.applies if one.server == server), None), Device("cpu", 0)
    if own is None:
        return {"pushed": [], "reads": [], "writes": [], "built": None, "program": None, "place": place}
    program = bind(own.program, DeviceMap(), (place,), place).program
    return {
        "pushed": list(own.pushed),
        "reads": list(own.reads),
        "writes": list(own.writes),
        "built": _reference(backend.build(program)) if engine.updates == "host" else None,
        "program": to_json(program, values=False) if engine.updates == "graph" else None,
        "place": place,
    }


def _does(program: Program) -> bool:
    """Whether a program gives or changes anything: a task may only read what its servers' updates return."""
    return bool(program.outputs or program.updates)


def _reference(built: Built) -> Any:
    """What stands here for what a worker built."""
    return built.execute.args[0]  # type: ignore[attr-defined]
