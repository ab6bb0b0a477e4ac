"""What joins the processes of a cluster: the contract of an engine, as one task has it, in the task's process.

An engine is a framework's own way, or MPI's: no protocol of ours. It is made before the framework of the task starts.
"""

from __future__ import annotations

import abc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.engines.record import Applied, Layout
from xbackend.engines.spec import SERVER, ClusterSpec, Task
from xbackend.errors import ClusterError

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Built, Settings, Value
    from xbackend.program.program import Program

FRESH = 0.05  # seconds for which a record that an update left is as good as one that is read
_SPIN = 5e-4  # seconds that a wait takes a core for itself
_SHARE = 0.03  # of what it waited so far it sleeps before it looks again
LONGEST = 1e-4  # seconds that it sleeps at most


@dataclass(frozen=True, slots=True)
class Brought:
    """What a task brings to the servers: the number of its step, the versions of all servers that this was computed
    from, and the arrays for each server."""

    step: int
    read: Sequence[int]
    arrays: Sequence[Sequence[np.ndarray]]


class Engine(abc.ABC):
    """One task's end of what joins it with the others; ``joined`` is what `tasks.joined` says of it, with the options
    ``limit``, the seconds that anything may take, and ``asynchronous``, whether tasks do not wait for each other;
    ``settings`` are those that the backend of the task is about to start with.

    Raises `ClusterError` where the others cannot be reached within the limit.
    """

    def __init__(self, joined: Mapping[str, Any], settings: Settings) -> None:
        self.settings = settings
        own = joined["task"]
        self.spec = ClusterSpec({name: tuple(addresses) for name, addresses in joined["jobs"].items()})
        self.task = Task(own["job"], own["index"], own["count"])
        self.options: Mapping[str, Any] = joined["options"]
        self.limit = float(self.options["limit"])
        self.asynchronous = bool(self.options["asynchronous"])
        # Bytes that came from and went to parameter servers.
        self.moved = {"pulled": 0, "pushed": 0}
        self._left: dict[int, tuple[float, np.ndarray]] = {}
        self.join()

    @abc.abstractmethod
    def join(self) -> None:
        """Meet the other tasks. The framework of the task is not there yet."""

    def started(self, backend: Backend) -> None:
        """The framework of the task is there."""

    def until(self, done: Callable[[], bool], what: str | Callable[[], str], longest: float = LONGEST) -> None:
        """Wait until something is done, without taking the core from who is waited for; between two looks at most
        ``longest`` seconds pass. Raises `ClusterError`, which says ``what`` was waited for, after the limit."""
        begin = time.perf_counter()
        while not done():
            waited = time.perf_counter() - begin
            if waited > self.limit:
                said = what if isinstance(what, str) else what()
                raise ClusterError(f"{self.task} waited {self.limit:g} s (--limit) {said}")
            if waited < _SPIN:
                os.sched_yield()
            else:
                time.sleep(min(waited * _SHARE, longest))

    @abc.abstractmethod
    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        """The sums of values over all workers, each on the device of the value; equal to the bit on all workers."""

    def meet(self, backend: Backend) -> None:
        """Wait until all workers are here."""
        self.all_reduce(backend, [backend.put(np.zeros(1, np.float32), backend.default_device)])

    # Parameter servers, where the engine has them.

    def open(self, layouts: Sequence[Layout], records: Sequence[np.ndarray]) -> None:
        """Begin: the records of all servers have these layouts; ``records`` are those that this task begins: of a
        server its own, of a coordinator all, of others none. Every task calls it."""
        if layouts:
            raise self._no_servers()

    def updates(self, layouts: Sequence[Layout], applies: Sequence[Mapping[str, Any]]) -> Any:
        """What `push` needs to compute the updates of a step, of the applies of all servers as they came from the
        launcher."""
        if layouts:
            raise self._no_servers()

    def pull(self, layout: Layout) -> np.ndarray:
        """A copy of a server's record, of one version."""
        raise self._no_servers()

    def version(self, layout: Layout) -> int:
        """The version of a server's record."""
        raise self._no_servers()

    def reach(self, layout: Layout, version: int, what: str) -> None:
        """Wait until a server's record is of a version. Raises `ClusterError`, which says ``what`` was waited for."""
        now = 0

        def due() -> bool:
            nonlocal now
            now = self.version(layout)
            return now >= version

        self.until(due, lambda: f"for {what} of /job:{SERVER}/task:{layout.server}: it has {now} of {version}")

    def push(self, layouts: Sequence[Layout], updates: Any, brought: Brought) -> list[tuple[Applied, list[np.ndarray]]]:
        """Apply the updates of this task's step. All are computed before the first is applied. One that is in already
        is not applied again. Returns for each what was written down of it, and its results."""
        raise self._no_servers()

    def record(self, server: int) -> np.ndarray:
        """A copy of a server's record, asked of the task that began it."""
        raise self._no_servers()

    def _no_servers(self) -> ClusterError:
        return ClusterError(f"{type(self).__name__} has no parameter servers")

    def keep(self, layout: Layout, record: np.ndarray) -> None:
        """What `push` says: the record as the update left it, which the next step of a task that waits for nobody takes
        in place of a `pull`."""
        self._left[layout.server] = time.monotonic(), record

    def left(self, layout: Layout) -> np.ndarray | None:
        """The record as this task's last update left it, once, and if that was just now."""
        since, record = self._left.pop(layout.server, (0.0, None))
        return record if time.monotonic() - since < FRESH else None


class Coordinating(Engine):
    """The engine of a coordinator, which has the programs of all workers and lets them compute. A step of a worker's
    task may be computed by any worker that is free."""

    @abc.abstractmethod
    def scheduled(self, backend: Backend, program: Program, wiring: Mapping[str, Any]) -> Any:
        """What `step` needs of a task's own program, and of what goes from where to where."""

    @abc.abstractmethod
    def step(self, scheduled: Any, number: int, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[Applied]]:
        """Let a worker take the step of that number, and wait until it is in: what the function returned, and what was
        written down of its updates. Called for several tasks at once, each from a thread of its own."""


@dataclass(frozen=True)
class HostUpdate:
    """An update of a server that the process of a task computes: ``run`` of what is pushed and of the variables that it
    ``reads``, to those that it ``writes`` and what is returned to the user; none where nothing is written."""

    run: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] | None
    reads: Sequence[str]
    writes: Sequence[str]

    @classmethod
    def of(cls, apply: Mapping[str, Any]) -> HostUpdate:
        """Computed by the backend of the task."""
        backend: Backend = apply["backend"]
        built: Built | None = apply["built"]
        if built is None:
            return cls(None, (), ())
        execute = built.execute

        def run(given: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            return backend.get_all(execute(*backend.put_all(given, [apply["place"]] * len(given))))

        return cls(run, apply["reads"], apply["writes"])

    def __call__(self, layout: Layout, record: np.ndarray, pushed: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Change the variables of a record; what is returned to the user."""
        if self.run is None:
            return []
        held = layout.arrays(record)
        results = self.run([*pushed, *(held[name] for name in self.reads)])
        for name, array in zip(self.writes, results, strict=False):
            held[name][...] = array
        return list(results[len(self.writes) :])
