"""The results of `xbackend cluster run`: the outcome of a job on each backend, as plain data."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from xbackend.results.schema import Count, Outcome, Outcomes, Positive, Seconds


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A lost task: its step, the reason, what was started again, and the seconds from detection until steps went on."""

    task: str
    step: Count
    why: str
    again: str
    seconds: Seconds


class Clustered(Outcome, frozen=True, kw_only=True):
    """A job on a backend. Its ``difference`` is `None` where asynchronous tasks have an order of their own.

    Attributes:
        engine, by: what joined the tasks, in words, and its name; older files have none.
        start: seconds until all tasks had met.
        seconds: of the steps of each worker, in order; those that compile are left out.
        updates: how many the parameter servers applied, each once.
        taken: steps of all workers, with those repeated after a loss; 0 where nobody counted.
        pulled, pushed: bytes from and to parameter servers in these.
        listens: the addresses that each task listened on.
        copies: whether variables of the same name are equal to the bit in all workers; `None` where there are none.
        replayed: whether the updates, repeated in one process, came to the same to the bit; `None` if not repeated.
    """

    engine: str
    by: str = ""
    start: Seconds = 0.0
    seconds: tuple[tuple[Seconds, ...], ...] = ()
    updates: Count = 0
    taken: Count = 0
    pulled: Count = 0
    pushed: Count = 0
    faults: tuple[Fault, ...] = ()
    listens: Mapping[str, tuple[str, ...]] = {}
    copies: bool | None = None
    replayed: bool | None = None


class Jobs(Outcomes, frozen=True, kw_only=True):
    """All of one call of `xbackend cluster run`."""

    MADE_BY = "xbackend cluster run", "run the job"
    job: str
    workers: Positive
    servers: Count
    steps: Positive
    asynchronous: bool
    hosts: tuple[str, ...]
    runs: tuple[Clustered, ...]
    version: Positive = 1
    format: str = "xbackend.clustered"
