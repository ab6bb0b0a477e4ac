"""One process in place of a cluster: an engine that repeats logged updates in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from xbackend.engines.contract import Brought, Engine, HostUpdate
from xbackend.engines.record import Layout
from xbackend.engines.spec import WORKER, Task


class Alone(Engine):
    """The records of all servers in this process. A step reads the same versions as in the run."""

    name, summary = "alone", "one process"

    def join(self) -> None:
        self.records: dict[int, np.ndarray] = {}
        self.held: dict[tuple[int, int], np.ndarray] = {}
        self.wanted: Sequence[int] = ()
        self.readers = Counter[tuple[int, int]]()

    def expect(self, reads: Sequence[Sequence[int]]) -> None:
        """Announce updates by the versions of all servers that they read. `open` comes after the last of them."""
        self.readers.update((server, version) for read in reads for server, version in enumerate(read))

    def open(self, records: Sequence[np.ndarray]) -> None:
        for one, record in zip(self.layouts, records, strict=True):
            self.records[one.server] = record.copy()
            self._hold(one)

    def _hold(self, one: Layout) -> None:
        """Keep the present version of a server if a later update reads it."""
        version = one.server, one.version(self.records[one.server])
        if self.readers[version]:
            self.held[version] = self.records[one.server].copy()

    def set(self, worker: int, count: int, read: Sequence[int]) -> None:
        """Set the task of the next step, and the versions that it reads."""
        self.task, self.wanted = Task(WORKER, worker, count), read

    def pull(self, layout: Layout) -> np.ndarray:
        return self.held[layout.server, self.wanted[layout.server]]

    def repeat(self, layout: Layout, update: HostUpdate, brought: Brought) -> None:
        """Apply the update of one server again."""
        record = self.records[layout.server]
        update(layout, record, brought.arrays[layout.server])
        layout.add(record, self.task.index, brought.step, brought.read)
        self._hold(layout)
        for version in enumerate(brought.read):
            self.readers[version] -= 1
            if not self.readers[version]:
                del self.held[version], self.readers[version]

    def record(self, server: int) -> np.ndarray:
        return self.records[server].copy()
