"""What joins the processes of a cluster: the contract of an engine.

An engine is a framework's own way, or MPI's: no protocol of ours. Its class says what the launcher has to know; no
framework is imported for that. An instance is the end of one task, in the process of the task. It is made before the
framework of the task starts.
"""

from __future__ import annotations

import abc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xbackend.engines.pmi import Meeting
from xbackend.engines.record import Applied, Layout
from xbackend.engines.spec import SERVER, ClusterSpec, Task
from xbackend.errors import ClusterError
from xbackend.program.serialization import from_json

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Settings, Value

FRESH = 0.05  # seconds for which a record that an update left is as good as one that is read
_SPIN = 5e-4  # seconds that a wait takes a core for itself
_SHARE = 0.03  # of what it waited so far it sleeps before it looks again
LONGEST = 1e-4  # seconds that it sleeps at most


@dataclass(frozen=True, slots=True)
class Brought:
    """What a task brings to the servers: the number of its step, the versions of all servers that it read, and the
    arrays for each server."""

    step: int
    read: Sequence[int]
    arrays: Sequence[Sequence[np.ndarray]]


class Engine(abc.ABC):
    """What joins a task with the others.

    Args:
        joined: what `tasks.joined` says. Its options are ``limit``, the seconds that anything may take,
            ``start_limit``, and ``asynchronous``, whether tasks do not wait for each other.
        settings: those that the backend of the task is about to start with.

    Raises:
        ClusterError: the others cannot be reached within the limit.
    """

    name: ClassVar[str]  # in the registry
    summary: ClassVar[str]
    no_servers: ClassVar[str] = ""  # why it has no parameter servers, if it has none
    coordinated: ClassVar[bool] = False  # a task of its own, /job:chief/task:0, has the programs of all workers
    rejoins: ClassVar[bool] = False  # a lost worker comes back while the others go on
    exposed: ClassVar[str] = ""  # what anybody on the network can do with it, if it listens everywhere
    alone: ClassVar[str] = "xbackend.engines.alone:Alone"  # the engine that repeats its updates in one process
    meeting: ClassVar[type[Meeting] | None] = None  # how its processes meet through the launcher, if they do

    # What the launcher asks before there are tasks.

    @classmethod
    def check(cls, spec: ClusterSpec, *, asynchronous: bool) -> None:
        """Raises `ClusterError` for a cluster that the engine does not join."""
        spec.check_jobs(cls.coordinated)
        if SERVER in spec.jobs and cls.no_servers:
            raise ClusterError(f"no parameter servers here: {cls.no_servers}")

    @classmethod
    def completed(cls, spec: ClusterSpec) -> ClusterSpec:
        """The cluster with the tasks that the engine needs beside those of the job. Raises `ClusterError`."""
        return spec

    @classmethod
    def environment(cls, hosts: int) -> dict[str, str]:
        """Environment variables of a task, of a cluster on so many hosts."""
        return {}

    # The end of a task.

    def __init__(self, joined: Mapping[str, Any], settings: Settings) -> None:
        self.settings = settings
        self.spec = ClusterSpec({name: tuple(addresses) for name, addresses in joined["jobs"].items()})
        self.task = Task(*joined["task"])
        self.layouts = [Layout.of(plain) for plain in joined["layouts"]]
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

    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        """The sums of values over all workers, each on the device of the value; equal to the bit on all workers."""
        arrays = backend.get_all(values)
        sums, dtypes = list(arrays), dict.fromkeys(array.dtype for array in arrays)
        groups = [[k for k, array in enumerate(arrays) if array.dtype == dtype] for dtype in dtypes]
        messages = [np.concatenate([arrays[k].ravel() for k in own]) for own in groups]
        for own, total in zip(groups, self.summed(messages), strict=True):
            begin = 0
            for k in own:
                end = begin + arrays[k].size
                sums[k], begin = total[begin:end].reshape(arrays[k].shape), end
        return backend.put_all(sums, [backend.device_of(value) for value in values])

    def summed(self, messages: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The sums over all workers of arrays of one axis, one for each dtype."""
        raise ClusterError(f"an all-reduce is of tasks in step, and {type(self).__name__} has none")

    def meet(self, backend: Backend) -> None:
        """Wait until all workers are here."""
        self.all_reduce(backend, [backend.put(np.zeros(1, np.float32), backend.default_device)])

    def scheduled(self, backend: Backend, wiring: Mapping[str, Any]) -> Any:
        """A worker's program as a coordinator has it, with the method ``run`` of `member.BuiltProgram`, which is called
        in a thread for each worker. `None` where the worker's own process computes it."""

    # Parameter servers, where the engine has them.

    def open(self, records: Sequence[np.ndarray]) -> None:
        """Begin with the ``records`` of this task: of a server its own, of a coordinator all, of others none. Every
        task calls it."""

    def updates(self, backend: Backend, applies: Sequence[Mapping[str, Any]]) -> Any:
        """The updates of all servers, built for `push`. ``applies`` are those of `parts`, as the launcher sent them."""
        return [HostUpdate.of(backend, apply) for apply in applies]

    def pull(self, layout: Layout) -> np.ndarray:
        """A copy of a server's record, of one version."""
        raise NotImplementedError

    def version(self, layout: Layout) -> int:
        """The version of a server's record."""
        raise NotImplementedError

    def reach(self, layout: Layout, version: int, what: str) -> None:
        """Wait until a server's record is of a version. Raises `ClusterError`, which says ``what`` was waited for."""
        now = 0

        def due() -> bool:
            nonlocal now
            now = self.version(layout)
            return now >= version

        self.until(due, lambda: f"for {what} of /job:{SERVER}/task:{layout.server}: it has {now} of {version}")

    def push(self, updates: Any, brought: Brought) -> list[tuple[Applied, list[np.ndarray]]]:
        """Apply the updates of this task's step. All are computed before the first is applied. An update that is in
        already is not applied again. Returns for each its entry in the record, and results for the user."""
        raise NotImplementedError

    def record(self, server: int) -> np.ndarray:
        """A copy of a server's record, asked of the task that began it."""
        return self.pull(self.layouts[server])

    def keep(self, layout: Layout, record: np.ndarray) -> None:
        """Remember a record as an update left it: the next step of an asynchronous task may begin with it."""
        self._left[layout.server] = time.monotonic(), record

    def left(self, layout: Layout) -> np.ndarray | None:
        """The record as this task's last update left it, once, and if that was just now."""
        since, record = self._left.pop(layout.server, (0.0, None))
        return record if time.monotonic() - since < FRESH else None


@dataclass(frozen=True)
class HostUpdate:
    """An update of a server that the process of a task computes. ``run`` takes the pushed arrays and the variables that
    it ``reads``. It gives the new values of those that it ``writes``, then results for the user. `None` writes nothing.
    """

    run: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] | None
    reads: Sequence[str]
    writes: Sequence[str]

    @classmethod
    def of(cls, backend: Backend, apply: Mapping[str, Any]) -> HostUpdate:
        """Computed by the backend of the task."""
        if apply["program"] is None:
            return cls(None, (), ())
        execute, place = backend.build(from_json(apply["program"])).execute, apply["place"]

        def run(given: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            return backend.get_all(execute(*backend.put_all(given, [place] * len(given))))

        return cls(run, apply["reads"], apply["writes"])

    def __call__(self, layout: Layout, record: np.ndarray, pushed: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Change the variables of a record. Returns the results for the user."""
        if self.run is None:
            return []
        held = layout.arrays(record)
        results = self.run([*pushed, *(held[name] for name in self.reads)])
        for name, array in zip(self.writes, results, strict=False):
            held[name][...] = array
        return list(results[len(self.writes) :])
