"""A task of a cluster in its own process: its steps, and the calls of its engine.

The launcher calls these functions through the worker (`RemoteBackend.call`). Their first argument is the hosted
backend, whose ``engine`` joins it with the other tasks.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xbackend.backends.contract import Backend, Value
from xbackend.devices import Device
from xbackend.engines.contract import Brought, Engine, StepParts
from xbackend.engines.record import Applied, Layout
from xbackend.errors import ClusterError
from xbackend.program.serialization import from_json
from xbackend.workers.serving import Held

if TYPE_CHECKING:
    from xbackend.engines.alone import Alone

# The programs of a task, the number of its first step, and for each step the index of its program and its arrays.
Chunk = tuple[Sequence[Any], int, Sequence[tuple[int, Sequence[np.ndarray]]]]


class BuiltProgram:
    """The built program of a worker: segments, the all-reduces between them, and the servers' updates."""

    def __init__(self, backend: Backend, wiring: Mapping[str, Any]) -> None:
        self.backend = backend
        self.engine: Engine = backend.engine
        self.layouts = self.engine.layouts
        segments = [(from_json(text), takes, gives) for text, takes, gives in wiring["segments"]]
        self.parts = parts = StepParts(wiring["inputs"], segments, wiring["reduced"], wiring["results"])
        self.devices: list[Device] = wiring["devices"]
        self.pulled: list[tuple[int, str]] = wiring["pulled"]
        self.outputs: list[tuple[int | None, int]] = wiring["outputs"]
        self.pushed: list[list[int]] = [one["pushed"] for one in wiring["applies"]]
        whole = self.engine.whole(backend, parts)
        self.execute = whole or self._by_segments
        self.built = [
            backend.build(program) if program.outputs or program.updates else None
            for program, _, _ in (segments if whole is None else ())
        ]
        # Results that are arguments need no framework.
        alone = whole is None and not parts.reduced and not any(program.updates for program, _, _ in segments)
        handed = alone and {*parts.results} <= {*parts.inputs}
        self.handed = [parts.inputs.index(i) for i in parts.results] if handed else None
        self.updates = self.engine.updates(backend, wiring["applies"])
        self.workers = self.layouts[0].workers if self.layouts else 1

    def run(self, number: int, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[Applied]]:
        """Take step ``number``. Returns the function's results and the entries of its updates.

        Raises `ComputationError` where the numbers have no result; then no server is updated.
        """
        try:
            own, brought = self.computed(number, arrays)
            if not self.engine.asynchronous and self.layouts:
                # A barrier: no variable changes before all workers have read it. An all-reduce is one, too.
                if self.workers > 1 and not self.parts.reduced:
                    self.engine.meet(self.backend)
                turn = number * self.workers + self.engine.task.index
                for one, read in zip(self.layouts, brought.read, strict=True):
                    if read < turn:
                        self.engine.reach(one, turn, "its turn to change the variables")
            done = self.engine.push(self.updates, brought) if self.layouts else []
        except Exception as error:
            ours = self.backend.refused(error)
            if ours is error:
                raise
            raise ours from error
        outputs = [own[k] if server is None else done[server][1][k] for server, k in self.outputs]
        return outputs, [entry for entry, _ in done]

    def computed(self, number: int, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], Brought]:
        """The results of the task's own program at step ``number``, and its contribution to the servers."""
        before = number * self.workers  # updates of each server so far, if tasks are in step
        records = [self._pulled(one, before) for one in self.layouts]
        read = [one.version(record) for one, record in zip(self.layouts, records, strict=True)]
        held = [one.arrays(record) for one, record in zip(self.layouts, records, strict=True)]
        given = [*arrays, *(held[server][name] for server, name in self.pulled)]
        if self.handed is not None:
            own = [np.array(given[k]) for k in self.handed]
        else:
            own = self.backend.get_all(self.execute(*self.backend.put_all(given, self.devices)))
        return own, Brought(number, read, [[own[k] for k in pushed] for pushed in self.pushed])

    def _by_segments(self, *given: Value) -> list[Value]:
        """The results of the task's own program, by one segment after the other."""
        parts = self.parts
        values: dict[int, Value] = dict(zip(parts.inputs, given, strict=True))
        for k, (built, (_, takes, gives)) in enumerate(zip(self.built, parts.segments, strict=True)):
            results = built.execute(*[values[i] for i in takes]) if built else ()
            values.update(zip(gives, results, strict=True))
            if k < len(parts.reduced):
                sums = self.engine.all_reduce(self.backend, [values[source] for _, source in parts.reduced[k]])
                values.update(zip([node for node, _ in parts.reduced[k]], sums, strict=True))
        return [values[i] for i in parts.results]

    def _pulled(self, one: Layout, version: int) -> np.ndarray:
        """A server's record, of at least ``version``; asynchronous tasks take any."""
        record = self.engine.left(one) if self.engine.asynchronous else None
        if record is None:
            record = self.engine.pull(one)
            if not self.engine.asynchronous and one.version(record) < version:
                self.engine.reach(one, version, "the other tasks' updates")
                record = self.engine.pull(one)
        return record


def load(backend: Backend, wiring: Mapping[str, Any]) -> Held:
    """Build the program of a worker and keep it here. ``wiring`` is made by `programs.loaded`."""
    return Held(backend.engine.scheduled(backend, wiring) or BuiltProgram(backend, wiring))


def advance(backend: Backend, chunks: Sequence[Chunk]) -> list[dict[str, Any]]:
    """Take the steps of each chunk one after the other; several chunks run at once.

    Returns for each chunk the results of its steps, the entries of their updates, and the seconds of each step. The
    first has the bytes moved for all chunks.
    """
    moved: dict[str, int] = backend.engine.moved
    before = dict(moved)
    if len(chunks) == 1:
        answers = [_steps(*chunks[0])]
    else:
        with ThreadPoolExecutor(len(chunks), "xbackend-steps") as threads:
            calls = [threads.submit(_steps, *chunk) for chunk in chunks]
        # A program's own error also fails the steps of others with a ClusterError: raise the cause.
        if errors := [error for call in calls if (error := call.exception()) is not None]:
            raise next((error for error in errors if not isinstance(error, ClusterError)), errors[0])
        answers = [call.result() for call in calls]
    answers[0]["moved"] = {what: count - before[what] for what, count in moved.items()}
    return answers


def _steps(programs: Sequence[Any], first: int, batches: Sequence[tuple[int, Sequence[np.ndarray]]]) -> dict[str, Any]:
    outputs, applied, took = [], list[Applied](), []
    for k, (place, arrays) in enumerate(batches):
        begin = time.perf_counter()
        returned, entries = programs[place].run(first + k, arrays)
        took.append(time.perf_counter() - begin)
        outputs.append(returned)
        applied += entries
    return {"outputs": outputs, "applied": applied, "seconds": took, "moved": {}}


def repeat(backend: Backend, program: BuiltProgram, applied: Sequence[Any], arrays: Sequence[np.ndarray]) -> None:
    """Repeat a logged update in a single process."""
    engine, update = cast("Alone", backend.engine), Applied(*applied)
    engine.set(update.worker, program.workers, update.read)
    _, brought = program.computed(update.step, arrays)
    engine.repeat(program.layouts[update.server], program.updates[update.server], brought)


def call(backend: Backend, method: str, *arguments: Any) -> Any:
    """Call a method of the engine."""
    return getattr(backend.engine, method)(*arguments)


def listens(backend: Backend) -> tuple[int, list[str]]:
    """The id of this process, and the TCP addresses that it listens on, read from /proc (Linux)."""
    inodes = set()
    with suppress(OSError):
        for link in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                inodes.add(str(link.readlink()))
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with suppress(OSError):
            for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                    found.append(_address(words[1], family))
    return os.getpid(), sorted(found)


def _address(text: str, family: socket.AddressFamily) -> str:
    host, port = text.split(":")
    words = [bytes.fromhex(host[k : k + 8])[::-1] for k in range(0, len(host), 8)]
    name = socket.inet_ntop(family, b"".join(words))
    return f"[{name}]:{int(port, 16)}" if family == socket.AF_INET6 else f"{name}:{int(port, 16)}"
