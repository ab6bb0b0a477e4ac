"""One process in place of a cluster: an engine that repeats the updates that were written down, in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.engines.contract import Brought, Engine, HostUpdate
from xbackend.engines.record import Layout
from xbackend.engines.spec import Task
from xbackend.errors import ClusterError

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Value


class Alone(Engine):
    """The records of all servers in this process. What a step reads are the versions that it read when it ran."""

    def join(self) -> None:
        self.records: dict[int, np.ndarray] = {}
        self.held: dict[tuple[int, int], np.ndarray] = {}
        self.wanted: Sequence[int] = ()
        self.readers = Counter[tuple[int, int]]()

    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        raise ClusterError("an all-reduce is of tasks in step, and nothing of it is to be repeated in another order")

    def begin(self, layouts: Sequence[Layout], records: Sequence[np.ndarray], reads: Sequence[Sequence[int]]) -> None:
        """The records before the first update, and the versions of all servers that each update reads."""
        self.readers = Counter((server, version) for read in reads for server, version in enumerate(read))
        for one, record in zip(layouts, records, strict=True):
            self.records[one.server] = record.copy()
            self._hold(one)

    def _hold(self, one: Layout) -> None:
        """Keep the present version of a server, if somebody reads it later."""
        version = one.server, one.version(self.records[one.server])
        if self.readers[version]:
            self.held[version] = self.records[one.server].copy()

    def set(self, worker: int, count: int, read: Sequence[int]) -> None:
        """Which task the next step is of, and which versions it reads."""
        self.task, self.wanted = Task("worker", worker, count), read

    def update(self, layout: Layout, apply: Mapping[str, Any]) -> HostUpdate:
        """What computes an update of a server here, of an apply as it came from the launcher."""
        return HostUpdate.of(apply)

    def updates(self, layouts: Sequence[Layout], applies: Sequence[Mapping[str, Any]]) -> list[HostUpdate]:
        return [self.update(layout, apply) for layout, apply in zip(layouts, applies, strict=True)]

    def pull(self, layout: Layout) -> np.ndarray:
        return self.held[layout.server, self.wanted[layout.server]]

    def repeat(self, layout: Layout, update: HostUpdate, brought: Brought) -> None:
        """Apply the update of one server, once more."""
        record = self.records[layout.server]
        update(layout, record, brought.arrays[layout.server])
        layout.add(record, self.task.index, brought.step, brought.read)
        self._hold(layout)
        for version in enumerate(brought.read):
            self.readers[version] -= 1
            if not self.readers[version]:
                del self.held[version]

    def record(self, server: int) -> np.ndarray:
        return self.records[server].copy()
