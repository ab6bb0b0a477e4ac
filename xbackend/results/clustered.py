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
    """A job on a backend. Its ``difference`` is `None` where asynchronous tasks have an order of their own."""

    engine: str  #: what joined the tasks, in words
    by: str = ""  #: the name of that; older files have none
    start: Seconds = 0.0  #: until all tasks had met
    seconds: tuple[tuple[Seconds, ...], ...] = ()  #: of the steps of each worker, in order, without those that compile
    updates: Count = 0  #: that the parameter servers applied, each once
    taken: Count = 0  #: steps of all workers, with those repeated after a loss; 0 where nobody counted
    pulled: Count = 0  #: bytes from parameter servers in these
    pushed: Count = 0  #: bytes to them
    faults: tuple[Fault, ...] = ()
    listens: Mapping[str, tuple[str, ...]] = {}  #: the addresses that each task listened on
    copies: bool | None = None  #: variables of one name are equal to the bit in all workers; `None`: there are none
    replayed: bool | None = None  #: the updates came to the same to the bit in one process; `None`: not repeated


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
