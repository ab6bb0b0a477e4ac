"""What a parameter server holds, as one record of bytes: how often it was updated, by whom and from which versions,
and its variables.

One record is read and replaced as a whole, so that what is read is of one version, and an update is there with all that
is said of it or not at all. It starts with whole numbers (int64): the version, which counts updates, and for each
worker a row with the number of its steps that are in, and of the last `KEPT` of them the version that each one made and
those of all servers that it was computed from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

KEPT = 64  # steps of a worker whose place is kept
_ALIGNED = 16  # bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """A variable of a server: its name, shape, and dtype by NumPy's name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Applied(NamedTuple):
    """An update of a server: the step (from 0) of a worker, the version that it made, those it was computed from."""

    server: int
    worker: int
    step: int
    version: int
    read: tuple[int, ...]

    @classmethod
    def of(cls, plain: Sequence[Any]) -> Applied:
        """Of its fields in their order, as they come from another process."""
        server, worker, step, version, read = plain
        return cls(server, worker, step, version, tuple(read))


@dataclass(frozen=True)
class Layout:
    """Where everything lies in the record of one of so many servers, for so many workers."""

    server: int
    servers: int
    workers: int
    variables: tuple[Stored, ...]

    @cached_property
    def entry(self) -> int:
        """Numbers of one kept step: the version made, the versions read."""
        return 1 + self.servers

    @cached_property
    def row(self) -> int:
        """Numbers of a worker: its steps, and those of the kept ones."""
        return 1 + KEPT * self.entry

    @cached_property
    def numbers(self) -> int:
        """Whole numbers before the variables."""
        return 1 + self.workers * self.row

    def steps_at(self, worker: int) -> int:
        """Where the number of a worker's steps stands among the numbers."""
        return 1 + worker * self.row

    def entry_at(self, worker: int, step: int) -> int:
        """Where what is kept of a worker's step begins among the numbers."""
        return self.steps_at(worker) + 1 + step % KEPT * self.entry

    @cached_property
    def begins(self) -> dict[str, int]:
        """The first byte of each variable."""
        place, found = self.numbers * 8, {}
        for one in self.variables:
            place = -(-place // _ALIGNED) * _ALIGNED
            found[one.name] = place
            place += one.nbytes
        return found

    @cached_property
    def nbytes(self) -> int:
        ends = (self.begins[one.name] + one.nbytes for one in self.variables)
        return -(-max([self.numbers * 8, *ends]) // _ALIGNED) * _ALIGNED

    # Of a record, an array of uint8:

    def counts(self, record: np.ndarray) -> np.ndarray:
        """Its whole numbers, a view."""
        return record[: self.numbers * 8].view(np.int64)

    def version(self, record: np.ndarray) -> int:
        return int(self.counts(record)[0])

    def steps(self, record: np.ndarray) -> list[int]:
        """How many steps of each worker are in."""
        counts = self.counts(record)
        return [int(counts[self.steps_at(worker)]) for worker in range(self.workers)]

    def array(self, record: np.ndarray, variable: Stored) -> np.ndarray:
        """A variable's value, a view."""
        begin = self.begins[variable.name]
        return record[begin : begin + variable.nbytes].view(variable.dtype).reshape(variable.shape)

    def arrays(self, record: np.ndarray) -> dict[str, np.ndarray]:
        """All values by name, views."""
        return {one.name: self.array(record, one) for one in self.variables}

    def add(self, record: np.ndarray, worker: int, step: int, read: Sequence[int]) -> int:
        """Write down one more update; the version that it makes."""
        counts = self.counts(record)
        counts[0] += 1
        counts[self.steps_at(worker)] = step + 1
        begin = self.entry_at(worker, step)
        counts[begin : begin + self.entry] = [counts[0], *read]
        return int(counts[0])

    def applied(self, record: np.ndarray, worker: int, step: int) -> Applied:
        """What is kept of a worker's step, one of the last `KEPT`."""
        begin = self.entry_at(worker, step)
        version, *read = self.counts(record)[begin : begin + self.entry].tolist()
        return Applied(self.server, worker, step, version, tuple(read))

    def new(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """A record with these values and no update."""
        record = np.zeros(self.nbytes, np.uint8)
        for one in self.variables:
            self.array(record, one)[...] = values[one.name]
        return record
