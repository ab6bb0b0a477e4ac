"""What `xbackend cluster run` leaves behind: what became of a job on each backend, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from xbackend.results.schema import Amount, Count, Machine, Positive, Seconds, Status, sealed, unsealed

FORMAT = "xbackend.clustered"
VERSION = 1


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was lost: at which of its steps, why, what was started again, and the seconds from when it was seen
    until steps went on."""

    task: str
    step: Count
    why: str
    again: str
    seconds: Seconds


class Clustered(msgspec.Struct, frozen=True, kw_only=True):
    """A job on a backend, or why it did not end.

    Attributes:
        engine, by: what joined the tasks, in words, and its name; older files have none.
        start: seconds until all tasks had met.
        seconds: of the steps of each worker, in order; those that compile are left out.
        updates: how many the parameter servers applied, each once.
        taken: steps of all workers, those that were repeated after a loss included; 0 where nobody counted.
        pulled, pushed: bytes that went from and to parameter servers in these.
        listens: the addresses that each task listened on.
        copies: whether variables of the same name are equal to the bit in all workers; `None` where there are none.
        replayed: whether the updates, repeated in one process, came to the same to the bit; `None` if not repeated.
        difference: the largest difference of a variable from that of the first backend, over its largest element;
            `None` of the first, and where asynchronous tasks have an order of their own.
    """

    backend: str
    engine: str
    by: str = ""
    status: Status = "ok"
    reason: str = ""
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)
    start: Seconds = 0.0
    seconds: tuple[tuple[Seconds, ...], ...] = ()
    updates: Count = 0
    taken: Count = 0
    pulled: Count = 0
    pushed: Count = 0
    faults: tuple[Fault, ...] = ()
    listens: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    copies: bool | None = None
    replayed: bool | None = None
    difference: Amount | None = None


class Jobs(msgspec.Struct, frozen=True, kw_only=True):
    """All of one call of `xbackend cluster run`."""

    job: str
    summary: str
    workers: Positive
    servers: Count
    steps: Positive
    asynchronous: bool
    hosts: tuple[str, ...]
    created: str
    machine: Machine
    runs: tuple[Clustered, ...]
    version: Positive = VERSION
    format: str = FORMAT


def encode(jobs: Jobs) -> bytes:
    """The content of a file of jobs."""
    return sealed(jobs)


def load(path: Path) -> Jobs:
    """Read jobs. Raises `StoreError`, `DamagedStore`, `StoreVersionError`."""
    return unsealed(path, Jobs, "xbackend cluster run", "run the job")
