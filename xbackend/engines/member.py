"""A task of a cluster in its own process: steps taken there, one after the other, and what a parameter server is asked.

Called by the launcher through the worker (`RemoteBackend.call`), with the hosted backend, whose ``engine`` joins it
with the other tasks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from xbackend.backends.contract import Backend, Built, Value
from xbackend.devices import Device
from xbackend.engines.alone import Alone
from xbackend.engines.contract import Brought, Coordinating, Engine
from xbackend.engines.listening import listening
from xbackend.engines.record import Applied, Layout, Stored
from xbackend.errors import ClusterError
from xbackend.program.serialization import from_json
from xbackend.workers.serving import Held


def engine_of(backend: Backend) -> Engine:
    """What joins this process with the others. Raises `ClusterError`."""
    engine: Engine | None = getattr(backend, "engine", None)
    if engine is None:
        raise ClusterError("this process is no task of a cluster")
    return engine


def layout(plain: Mapping[str, Any]) -> Layout:
    """A layout as it came from the launcher."""
    variables = tuple(Stored(name, tuple(shape), dtype) for name, shape, dtype in plain["variables"])
    return Layout(plain["server"], plain["servers"], plain["workers"], variables)


def plain(one: Layout) -> dict[str, Any]:
    """A layout as it goes to a task."""
    return {
        "server": one.server,
        "servers": one.servers,
        "workers": one.workers,
        "variables": [(v.name, v.shape, v.dtype) for v in one.variables],
    }


class Step:
    """The program of a task, built: its segments with the all-reduces between them, and the updates of servers."""

    def __init__(self, backend: Backend, built: Sequence[Built | None], wiring: Mapping[str, Any]) -> None:
        self.backend, self.engine = backend, engine_of(backend)
        self.layouts = [layout(one) for one in wiring["layouts"]]
        self.inputs: list[int] = wiring["inputs"]
        self.devices: list[Device] = wiring["devices"]
        self.pulled: list[tuple[int, str]] = wiring["pulled"]
        self.segments = list(zip(built, wiring["segments"], strict=True))
        self.reduced: list[list[tuple[int, int]]] = wiring["reduced"]
        self.results: list[int] = wiring["results"]
        self.outputs: list[tuple[int | None, int]] = wiring["outputs"]
        self.pushed: list[list[int]] = [one["pushed"] for one in wiring["applies"]]
        self.updates = self.engine.updates(self.layouts, [{**one, "backend": backend} for one in wiring["applies"]])
        self.workers = self.layouts[0].workers if self.layouts else 1

    def run(self, number: int, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[Any]]:
        """The step of that number: what the function returned, and what was written down of its updates.

        Raises `ComputationError` for numbers that have no result; then no server is updated.
        """
        try:
            return self._run(number, arrays)
        except Exception as error:
            ours = self.backend.refused(error)
            if ours is error:
                raise
            raise ours from error

    def _run(self, number: int, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[Any]]:
        own, brought = self.computed(number, arrays)
        if not self.engine.asynchronous and self.layouts:
            # Nobody changes what another one has not read; an all-reduce says it, too.
            if self.workers > 1 and not self.reduced:
                self.engine.meet(self.backend)
            turn = number * self.workers + self.engine.task.index
            for one, read in zip(self.layouts, brought.read, strict=True):
                if read < turn:
                    self.engine.reach(one, turn, "its turn to change the variables")
        applied, returned = [], []
        if self.layouts:
            for entry, back in self.engine.push(self.layouts, self.updates, brought):
                applied.append(tuple(entry))
                returned.append(back)
        return [own[k] if server is None else returned[server][k] for server, k in self.outputs], applied

    def computed(self, number: int, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], Brought]:
        """What the task's own program gives at the step of that number, and what the servers are brought of it."""
        before = number * self.workers  # updates of each server, where tasks are in step
        records = [self._pulled(one, before) for one in self.layouts]
        read = [one.version(record) for one, record in zip(self.layouts, records, strict=True)]
        held = [one.arrays(record) for one, record in zip(self.layouts, records, strict=True)]
        pulled = [held[server][name] for server, name in self.pulled]
        values: dict[int, Value] = dict(
            zip(self.inputs, self.backend.put_all([*arrays, *pulled], self.devices), strict=True)
        )
        for k, (built, wires) in enumerate(self.segments):
            results = () if built is None else built.execute(*[values[i] for i in wires["takes"]])
            values.update(zip(wires["gives"], results, strict=True))
            if k < len(self.reduced):
                sums = self.engine.all_reduce(self.backend, [values[source] for _, source in self.reduced[k]])
                values.update(zip([node for node, _ in self.reduced[k]], sums, strict=True))
        own = self.backend.get_all([values[i] for i in self.results])
        return own, Brought(number, read, [[own[k] for k in pushed] for pushed in self.pushed])

    def _pulled(self, one: Layout, version: int) -> np.ndarray:
        """A server's record, of that version at least; of any where tasks do not wait for each other."""
        record = self.engine.left(one) if self.engine.asynchronous else None
        if record is None:
            record = self.engine.pull(one)
            if not self.engine.asynchronous and one.version(record) < version:
                self.engine.reach(one, version, "the other tasks' updates")
                record = self.engine.pull(one)
        return record


def built(backend: Backend, segments: Sequence[Built | None], wiring: Mapping[str, Any]) -> Held:
    """A `Step`, which stays here."""
    return Held(Step(backend, segments, wiring))


def advance(
    backend: Backend,
    steps: Sequence[Step],
    first: int,
    batches: Sequence[tuple[int, Sequence[np.ndarray]]],
) -> dict[str, Any]:
    """Take steps from the number ``first`` on, one for each of the batches, which say by which of the steps: what they
    returned, what was written down of their updates, and how long (s) each took."""
    outputs, applied, took = [], [], []
    engine = engine_of(backend)
    before = dict(engine.moved)
    for k, (own, arrays) in enumerate(batches):
        begin = time.perf_counter()
        returned, entries = steps[own].run(first + k, arrays)
        took.append(time.perf_counter() - begin)
        outputs.append(returned)
        applied += entries
    now = {what: count - before[what] for what, count in engine.moved.items()}
    return {"outputs": outputs, "applied": applied, "seconds": took, "moved": now}


def scheduled(backend: Backend, program: str, wiring: Mapping[str, Any]) -> Held:
    """A task's step as a coordinator has it, which stays here."""
    return Held(_coordinating(backend).scheduled(backend, from_json(program), wiring))


def coordinate(backend: Backend, tasks: Sequence[tuple[Sequence[Any], int, Sequence[Any]]]) -> list[dict[str, Any]]:
    """Let workers take steps of all tasks, one after the other of each, as `advance` has them, and what `advance`
    answers of each; what was moved for all of them stands with the first one's."""
    engine = _coordinating(backend)
    before = dict(engine.moved)

    def steps(task: tuple[Sequence[Any], int, Sequence[Any]]) -> dict[str, Any]:
        own, first, batches = task
        outputs, applied, took = [], [], []
        for k, (place, arrays) in enumerate(batches):
            begin = time.perf_counter()
            returned, entries = engine.step(own[place], first + k, arrays)
            took.append(time.perf_counter() - begin)
            outputs.append(returned)
            applied += [tuple(entry) for entry in entries]
        return {"outputs": outputs, "applied": applied, "seconds": took, "moved": dict.fromkeys(before, 0)}

    with ThreadPoolExecutor(len(tasks), "xbackend-steps") as threads:
        calls = [threads.submit(steps, task) for task in tasks]
    errors = [error for call in calls if (error := call.exception()) is not None]
    # What a program cannot compute takes the steps of others with it: it is the cause.
    if errors:
        raise next((error for error in errors if not isinstance(error, ClusterError)), errors[0])
    answers = [call.result() for call in calls]
    answers[0]["moved"] = {what: count - before[what] for what, count in engine.moved.items()}
    return answers


def _coordinating(backend: Backend) -> Coordinating:
    engine = engine_of(backend)
    if not isinstance(engine, Coordinating):
        raise ClusterError(f"{engine.task} is no coordinator")
    return engine


def begun(
    backend: Backend,
    layouts: Sequence[Mapping[str, Any]],
    records: Sequence[np.ndarray],
    reads: Sequence[Sequence[int]],
) -> None:
    """Begin to repeat updates: the records before the first, and what each of them reads."""
    _alone(backend).begin([layout(one) for one in layouts], records, reads)


def repeated(backend: Backend, step: Step, plain: Sequence[Any], arrays: Sequence[np.ndarray]) -> None:
    """Repeat an update that was written down."""
    engine, update = _alone(backend), Applied.of(plain)
    engine.set(update.worker, step.workers, update.read)
    _, brought = step.computed(update.step, arrays)
    engine.repeat(step.layouts[update.server], step.updates[update.server], brought)


def came_to(backend: Backend) -> list[np.ndarray]:
    """The servers' records after what was repeated."""
    records = _alone(backend).records
    return [records[server] for server in sorted(records)]


def _alone(backend: Backend) -> Alone:
    engine = engine_of(backend)
    if not isinstance(engine, Alone):
        raise ClusterError("only a process that is alone repeats updates")
    return engine


def opened(backend: Backend, layouts: Sequence[Mapping[str, Any]], records: Sequence[np.ndarray]) -> None:
    """Begin with these layouts, and with the records that this task begins."""
    engine_of(backend).open([layout(one) for one in layouts], records)


def there(backend: Backend) -> None:
    """Answer."""


def listens(backend: Backend) -> tuple[int, list[str]]:
    """The number of this process, and the addresses that it listens on."""
    return os.getpid(), listening()


def record(backend: Backend, server: int) -> np.ndarray:
    """The record of a server that this task began."""
    return engine_of(backend).record(server)
