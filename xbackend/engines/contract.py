"""The contract of an engine, which joins the processes of a cluster.

An engine uses a framework's own protocol, or MPI's: none of ours. Its class tells the launcher what it needs without
importing a framework. An instance lives in the process of one task. It is made before the task's framework starts.
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
    from xbackend.program.program import Program

FRESH = 0.05  # seconds for which the record left by an update need not be read again
_AT_ONCE = 5e-5  # seconds for which a wait polls without leaving its core
_SPIN = 5e-4  # seconds for which it polls without sleeping
_SHARE = 0.03  # then it sleeps for this share of the time waited so far
LONGEST = 1e-4  # seconds that it sleeps at most


@dataclass(frozen=True, slots=True)
class Brought:
    """A task's contribution to the servers: the number of its step, the version that it read of each server, and the
    arrays for each server."""

    step: int
    read: Sequence[int]
    arrays: Sequence[Sequence[np.ndarray]]


@dataclass(frozen=True, slots=True)
class StepParts:
    """A worker's step, cut at its all-reduces. Numbers are nodes of its placed program.

    ``segments``: each has a program, the nodes that are its arguments and those of its results. It may be empty.
    ``reduced``: between two segments the nodes of all-reduces, each with its operand.
    """

    inputs: Sequence[int]
    segments: Sequence[tuple[Program, Sequence[int], Sequence[int]]]
    reduced: Sequence[Sequence[tuple[int, int]]]
    results: Sequence[int]


class Engine(abc.ABC):
    """Joins a task with the others.

    Args:
        joined: made by `starting.joined`. Its options are ``limit``, the seconds that each wait may take,
            ``start_limit``, and ``asynchronous``: tasks do not wait for each other.
        settings: those of the task's backend, which starts afterwards.

    Raises:
        ClusterError: the others cannot be reached within the limit.
    """

    name: ClassVar[str]  # in the registry
    summary: ClassVar[str]
    no_servers: ClassVar[str] = ""  # why it has no parameter servers, if it has none
    coordinated: ClassVar[bool] = False  # an extra task, /job:chief/task:0, has the programs of all workers
    rejoins: ClassVar[bool] = False  # a lost worker comes back while the others go on
    exposed: ClassVar[str] = ""  # what anybody on the network can do with it, if it listens on every interface
    alone: ClassVar[str] = "xbackend.engines.alone:Alone"  # the engine that repeats its updates in one process
    meeting: ClassVar[type[Meeting] | None] = None  # through which its processes find each other, if they need it

    # Called by the launcher before there are tasks.

    @classmethod
    def check(cls, spec: ClusterSpec, *, asynchronous: bool) -> None:
        """Raises `ClusterError` for a cluster that the engine does not join."""
        spec.check_jobs(cls.coordinated)
        if SERVER in spec.jobs and cls.no_servers:
            raise ClusterError(f"no parameter servers here: {cls.no_servers}")

    @classmethod
    def completed(cls, spec: ClusterSpec) -> ClusterSpec:
        """The cluster with any tasks that the engine adds to the job's. Raises `ClusterError`."""
        return spec

    @classmethod
    def environment(cls, hosts: int) -> dict[str, str]:
        """Environment variables of a task in a cluster on so many hosts."""
        return {}

    # In the process of a task.

    def __init__(self, joined: Mapping[str, Any], settings: Settings) -> None:
        self.settings = settings
        self.spec = ClusterSpec(joined["jobs"])
        self.task = Task(*joined["task"])
        self.layouts = [Layout.of(plain) for plain in joined["layouts"]]
        self.options: Mapping[str, Any] = joined["options"]
        self.limit = float(self.options["limit"])
        self.asynchronous = bool(self.options["asynchronous"])
        # Bytes read from and sent to parameter servers.
        self.moved = {"pulled": 0, "pushed": 0}
        self._left: dict[int, tuple[float, np.ndarray]] = {}
        self.join()

    @abc.abstractmethod
    def join(self) -> None:
        """Meet the other tasks. The task's framework has not started yet."""

    def started(self, backend: Backend) -> None:
        """Called once the task's framework has started."""

    def until(self, done: Callable[[], bool], what: str | Callable[[], str], longest: float = LONGEST) -> None:
        """Wait until ``done`` returns true, and leave the core to others meanwhile. At most ``longest`` seconds pass
        between two calls. Raises `ClusterError` after the limit: ``what`` names the awaited event."""
        begin = time.perf_counter()
        while not done():
            waited = time.perf_counter() - begin
            if waited > self.limit:
                said = what if isinstance(what, str) else what()
                raise ClusterError(f"{self.task} waited {self.limit:g} s (--limit) {said}")
            if _AT_ONCE <= waited < _SPIN:
                os.sched_yield()
            elif waited >= _SPIN:
                time.sleep(min(waited * _SHARE, longest))

    def whole(self, backend: Backend, parts: StepParts) -> Callable[..., Sequence[Value]] | None:
        """A step of a worker as one call: values of its inputs in, values of its results out. `None` where the task
        executes one segment after the other."""
        return None

    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        """The sums of values over all workers, each on its value's device; equal to the bit on all workers."""
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
        """The sums of messages over all workers. A message is an array of one axis; there is one for each dtype."""
        raise ClusterError(f"an all-reduce is of tasks in step, and {type(self).__name__} has none")

    def meet(self, backend: Backend) -> None:
        """A barrier of all workers."""
        self.all_reduce(backend, [backend.put(np.zeros(1, np.float32), backend.default_device)])

    def scheduled(self, backend: Backend, wiring: Mapping[str, Any]) -> Any:
        """A worker's program for a coordinator, with the method ``run`` of `member.BuiltProgram`, which is called in a
        thread for each worker. `None` where the worker's own process computes it."""

    # Parameter servers, where the engine has them.

    def open(self, records: Sequence[np.ndarray]) -> None:
        """Begin with the ``records`` of this task: a server has its own, a coordinator all, another task none. Every
        task calls this."""

    def updates(self, backend: Backend, applies: Sequence[Mapping[str, Any]]) -> Any:
        """The updates of all servers, built for `push`. ``applies`` are the `parts.Apply` that the launcher sent."""
        return [HostUpdate.of(backend, apply) for apply in applies]

    def pull(self, layout: Layout) -> np.ndarray:
        """A copy of a server's record, of one version."""
        raise NotImplementedError

    def version(self, layout: Layout) -> int:
        """The version of a server's record."""
        raise NotImplementedError

    def reach(self, layout: Layout, version: int, what: str) -> None:
        """Wait until a server's record has reached a version. Raises `ClusterError`, which names ``what``."""
        now = 0  # as it was seen last: it may have gone on when the wait is over, or its server be gone

        def due() -> bool:
            nonlocal now
            now = self.version(layout)
            return now >= version

        self.until(due, lambda: f"for {what} of /job:{SERVER}/task:{layout.server}: it has {now} of {version}")

    def push(self, updates: Any, brought: Brought) -> list[tuple[Applied, list[np.ndarray]]]:
        """Apply the updates of this task's step. All are computed before the first is applied. An applied update is not
        applied again. Returns for each its entry in the record, and results for the user."""
        raise NotImplementedError

    def record(self, server: int) -> np.ndarray:
        """A copy of a server's record, taken in the task that began it."""
        return self.pull(self.layouts[server])

    def keep(self, layout: Layout, record: np.ndarray) -> None:
        """Keep the record left by an update: the next step of an asynchronous task may begin with it."""
        self._left[layout.server] = time.monotonic(), record

    def left(self, layout: Layout) -> np.ndarray | None:
        """The record left by this task's last update, if younger than `FRESH` seconds. Each is returned once."""
        since, record = self._left.pop(layout.server, (0.0, None))
        return record if time.monotonic() - since < FRESH else None


@dataclass(frozen=True)
class HostUpdate:
    """An update of a server, computed in the process of a task. The arguments of ``run`` are the pushed arrays, then
    the variables in ``reads``. It returns the new values of those in ``writes``, then results for the user."""

    run: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
    reads: Sequence[str]
    writes: Sequence[str]

    @classmethod
    def of(cls, backend: Backend, apply: Mapping[str, Any]) -> HostUpdate:
        """An update that the task's backend computes."""
        program, place = from_json(apply["program"]), apply["place"]
        if not program.outputs:
            return NOTHING
        execute = backend.build(program).execute

        def run(given: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            return backend.get_all(execute(*backend.put_all(given, [place] * len(given))))

        return cls(run, apply["reads"], apply["writes"])

    def __call__(self, layout: Layout, record: np.ndarray, pushed: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Change the variables of a record. Returns the results for the user."""
        held = layout.arrays(record)
        results = self.run([*pushed, *(held[name] for name in self.reads)])
        for name, array in zip(self.writes, results, strict=False):
            held[name][...] = array
        return list(results[len(self.writes) :])


NOTHING = HostUpdate(lambda _: (), (), ())  # an update that changes no variable
