"""The request to the launcher: a job, where it runs and how."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from xbackend.backends.contract import Settings
from xbackend.cluster.job import GuardFor, Job
from xbackend.devices import DeviceMap
from xbackend.engines.spec import ClusterSpec


@dataclass(frozen=True)
class JobSpec:
    """A job, where it runs and how.

    ``cluster`` makes a `ClusterSpec` for each start. ``asynchronous``: tasks do not wait for each other. ``restarts``
    is the number of losses that are followed by a new start. ``limit`` is the seconds that a step may take,
    ``start_limit`` those of the start with its compilation. ``every`` is the number of steps between checkpoints;
    ``folder`` keeps the newest. ``here`` is this machine's name in the cluster, if not one of the loopback. ``engine``
    joins the tasks; empty, it is the backend's first. ``recorded``: `JobResults.log` keeps the updates, for a replay.
    """

    job: Job
    backend: str
    cluster: Callable[[], ClusterSpec]
    steps: int
    settings: Settings = field(default_factory=Settings)
    devices: DeviceMap = field(default_factory=DeviceMap)
    asynchronous: bool = False
    restarts: int = 3
    limit: float = 60.0
    start_limit: float = 600.0
    every: int = 50
    folder: Path | None = None
    here: str = ""
    engine: str = ""
    recorded: bool = False
    guard: GuardFor = lambda _: nullcontext()
    on_line: Callable[[str], None] = lambda _: None
