"""The record of a parameter server, as bytes: its variables, and the entries of the last updates.

A record is read and replaced as a whole. So a reader sees one version, and never an update without its entry. It starts
with whole numbers (int64): the version, which counts updates, and a row for each worker. A row has the number of the
worker's applied steps, and an entry for each of the last `KEPT` of them: the version that the step made, and the
versions of all servers that it read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

KEPT = 64  # steps of a worker whose entries are kept
ALIGNED = 16  # bytes


@dataclass(frozen=True, slots=True)
class ServerVariable:
    """A variable of a server. ``dtype`` is NumPy's name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Applied(NamedTuple):
    """The entry of an update: its server, worker and step (from 0), the version made, the versions read."""

    server: int
    worker: int
    step: int
    version: int
    read: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The layout of one server's record, in a cluster of ``servers`` and ``workers``."""

    server: int
    servers: int
    workers: int
    variables: tuple[ServerVariable, ...]

    @classmethod
    def of(cls, plain: Sequence[Any]) -> Layout:
        """The layout from the plain data that `dataclasses.astuple` made of it."""
        server, servers, workers, variables = plain
        return cls(server, servers, workers, tuple(ServerVariable(*one) for one in variables))

    @cached_property
    def entry(self) -> int:
        """Whole numbers of an entry: the version made, the versions read."""
        return 1 + self.servers

    @cached_property
    def row(self) -> int:
        """Whole numbers of a worker's row: its steps, and its entries."""
        return 1 + KEPT * self.entry

    @cached_property
    def numbers(self) -> int:
        """Whole numbers before the variables."""
        return 1 + self.workers * self.row

    def steps_at(self, worker: int) -> int:
        """The index of a worker's number of steps."""
        return 1 + worker * self.row

    def entry_at(self, worker: int, step: int) -> int:
        """The first index of the entry of a worker's step."""
        return self.steps_at(worker) + 1 + step % KEPT * self.entry

    @cached_property
    def _ends(self) -> list[int]:
        """Where the whole numbers and each variable end, with the bytes that align the next one."""
        sizes = (self.numbers * 8, *(one.nbytes for one in self.variables))
        return list(accumulate(size + -size % ALIGNED for size in sizes))

    @cached_property
    def begins(self) -> dict[str, int]:
        """The first byte of each variable."""
        return dict(zip((one.name for one in self.variables), self._ends, strict=False))

    @cached_property
    def _views(self) -> list[tuple[str, slice, np.dtype[Any], tuple[int, ...]]]:
        """For each variable its name, its bytes, its dtype and its shape."""
        begins = self.begins
        return [
            (one.name, slice(begins[one.name], begins[one.name] + one.nbytes), np.dtype(one.dtype), one.shape)
            for one in self.variables
        ]

    @cached_property
    def nbytes(self) -> int:
        return self._ends[-1]

    # A record is an array of uint8.

    def counts(self, record: np.ndarray) -> np.ndarray:
        """Its whole numbers, a view."""
        return record[: self.numbers * 8].view(np.int64)

    def version(self, record: np.ndarray) -> int:
        return int(self.counts(record)[0])

    def done(self, record: np.ndarray, worker: int) -> int:
        """The number of applied steps of a worker."""
        return int(self.counts(record)[self.steps_at(worker)])

    def steps(self, record: np.ndarray) -> list[int]:
        """The number of applied steps of each worker."""
        return [self.done(record, worker) for worker in range(self.workers)]

    def arrays(self, record: np.ndarray) -> dict[str, np.ndarray]:
        """All values by name, views."""
        return {name: record[part].view(dtype).reshape(shape) for name, part, dtype, shape in self._views}

    def add(self, record: np.ndarray, worker: int, step: int, read: Sequence[int]) -> Applied:
        """Add the entry of an update, which makes the next version, and return it."""
        counts, begin = self.counts(record), self.entry_at(worker, step)
        version = int(counts[0]) + 1
        counts[0] = version
        counts[self.steps_at(worker)] = step + 1
        counts[begin : begin + self.entry] = [version, *read]
        return Applied(self.server, worker, step, version, tuple(read))

    def applied(self, record: np.ndarray, worker: int, step: int) -> Applied:
        """The entry of a worker's step, one of its last `KEPT`."""
        begin = self.entry_at(worker, step)
        version, *read = self.counts(record)[begin : begin + self.entry].tolist()
        return Applied(self.server, worker, step, version, tuple(read))

    def since(self, record: np.ndarray, worker: int, step: int) -> list[Applied]:
        """The kept entries of a worker's steps from ``step`` on."""
        steps = self.steps(record)[worker]
        return [self.applied(record, worker, k) for k in range(max(step, steps - KEPT), steps)]

    def new(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """A record with these values and no update."""
        record = np.zeros(self.nbytes, np.uint8)
        for name, held in self.arrays(record).items():
            held[...] = values[name]
        return record
