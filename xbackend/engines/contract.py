"""What joins the processes of a cluster: the contract of an engine, as one task has it, in the task's process.

An engine is a framework's own way, or MPI's: no protocol of ours. It is made before the framework of the task starts.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.devices import Device
from xbackend.engines.record import Applied, Layout
from xbackend.engines.spec import ClusterSpec, Task
from xbackend.errors import ClusterError

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Built, Value

FRESH = 0.05  # seconds for which a record that an update left is as good as one that is read


@dataclass(frozen=True, slots=True)
class Brought:
    """What a task brings to a server: the number of its step, the versions of all servers that this was computed from,
    and the arrays. ``turn`` is the version that has to be there before it is applied, `None` for any."""

    step: int
    read: Sequence[int]
    arrays: Sequence[np.ndarray]
    turn: int | None = None


class Engine(abc.ABC):
    """One task's end of what joins it with the others; ``joined`` is what `tasks.joined` says of it, with the seconds
    that anything may take as its option ``limit``.

    Raises `ClusterError` where the others cannot be reached within the limit.
    """

    def __init__(self, joined: Mapping[str, Any]) -> None:
        own = joined["task"]
        self.spec = ClusterSpec({name: tuple(addresses) for name, addresses in joined["jobs"].items()})
        self.task = Task(own["job"], own["index"], own["count"])
        self.options: Mapping[str, Any] = joined["options"]
        self.limit = float(self.options["limit"])
        self._left: dict[int, tuple[float, np.ndarray]] = {}
        self.join()

    @abc.abstractmethod
    def join(self) -> None:
        """Meet the other tasks. The framework of the task is not there yet."""

    def started(self, backend: Backend) -> None:
        """The framework of the task is there."""

    @abc.abstractmethod
    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        """The sums of values over all workers, each on the device of the value; equal to the bit on all workers."""

    def meet(self, backend: Backend) -> None:
        """Wait until all workers are here."""
        self.all_reduce(backend, [backend.put(np.zeros(1, np.float32), backend.default_device)])

    # Parameter servers, where the engine has them.

    def open(self, layouts: Sequence[Layout], record: np.ndarray | None) -> None:
        """Begin: the records of all servers have these layouts. On a server, ``record`` is its own. Every task calls
        it."""
        if layouts:
            raise ClusterError(f"{type(self).__name__} has no parameter servers")

    @abc.abstractmethod
    def update(self, layout: Layout, apply: Mapping[str, Any]) -> Any:
        """What `push` needs to compute an update of a server, of an apply as it came from the launcher."""

    @abc.abstractmethod
    def pull(self, layout: Layout) -> np.ndarray:
        """A copy of a server's record, of one version."""

    @abc.abstractmethod
    def push(self, layout: Layout, update: Any, brought: Brought) -> tuple[Applied, list[np.ndarray]]:
        """Apply an update of this task's step, once: one that is in already is not applied again. What was written down
        of it, and what the update returns."""

    @abc.abstractmethod
    def record(self) -> np.ndarray:
        """A copy of this server's own record."""

    def keep(self, layout: Layout, record: np.ndarray) -> None:
        """What `push` may say: the record as the update left it, which the next step takes in place of a `pull`."""
        self._left[layout.server] = time.monotonic(), record

    def left(self, layout: Layout) -> np.ndarray | None:
        """The record as this task's last update left it, once, and if that was just now."""
        since, record = self._left.pop(layout.server, (0.0, None))
        return record if time.monotonic() - since < FRESH else None


@dataclass(frozen=True)
class HostUpdate:
    """An update of a server that the backend of a task computes."""

    backend: Backend
    built: Built | None  # none where nothing is written
    device: Device
    reads: Sequence[str]
    writes: Sequence[str]

    @classmethod
    def of(cls, apply: Mapping[str, Any]) -> HostUpdate:
        return cls(apply["backend"], apply["built"], apply["place"], apply["reads"], apply["writes"])

    def __call__(self, layout: Layout, record: np.ndarray, pushed: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Change the variables of a record; what is returned to the user."""
        if self.built is None:
            return []
        held = layout.arrays(record)
        given = [*pushed, *(held[name] for name in self.reads)]
        values = self.backend.put_all(given, [self.device] * len(given))
        results = self.backend.get_all(self.built.execute(*values))
        for name, array in zip(self.writes, results, strict=False):
            held[name][...] = array
        return list(results[len(self.writes) :])
