"""What a launcher is asked for: a job, where it runs and how."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from xbackend.backends.contract import Settings
from xbackend.cluster.job import Job
from xbackend.cluster.programs import Guard
from xbackend.devices import DeviceMap
from xbackend.engines.spec import ClusterSpec


@dataclass(frozen=True)
class JobSpec:
    """A job, where it runs and how.

    ``cluster`` makes a `ClusterSpec` for each start. ``asynchronous``: tasks do not wait for each other. ``restarts``
    is how often what was lost is started again. ``limit`` and ``start_limit`` are the seconds that a step may take, and
    the start with everything that is compiled. ``every`` are the steps from one checkpoint to the next, of which the
    newest are kept in ``folder``. ``here`` is the name of this machine in the cluster, where that is not one of the
    loopback. ``engine`` joins the tasks; without a name it is the first that the backend has. ``recorded``: updates are
    kept in `Ran.log`, for a replay.
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
    guard: Guard = lambda _: nullcontext()
    on_line: Callable[[str], None] = lambda _: None
