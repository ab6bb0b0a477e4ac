"""What became of a job on a cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbackend.cluster.updatelog import UpdateLog
from xbackend.engines.record import Applied
from xbackend.wording import counted

STEPS_KEPT = 64
SECONDS_KEPT = 1 << 14


@dataclass
class TaskLoss:
    """A task that was lost: at which of its steps, and why."""

    task: str
    step: int
    why: str
    again: str  # what was started again: the task, or all
    seen: float  # when that was, by the monotonic clock
    seconds: float = 0.0  # from there until work went on

    def over(self) -> None:
        """Work goes on."""
        self.seconds = self.seconds or time.monotonic() - self.seen


@dataclass
class Ran:
    """What became of a job.

    ``outputs`` are what the function of each worker returned at the last `STEPS_KEPT` steps that it took (large ones of
    the last step only). ``variables`` have the name of their place and theirs, ``/job:ps/task:0/w``. ``log`` has what
    servers wrote down of updates, where that is asked for; ``begun`` are their records where this run began, ``before``
    the versions of these, ``updates`` those that they applied since. ``seconds`` are of each worker's last
    `SECONDS_KEPT` steps, but for its first one. ``moved`` are bytes, in the ``taken`` steps of all workers, with those
    that were repeated after a loss. ``start`` are the seconds until all tasks had met, ``build`` those from there until
    each worker had taken its first step, with all that was compiled for it.
    """

    backend: str
    engine: str
    workers: int
    servers: int
    steps: int
    outputs: dict[int, dict[int, Any]] = field(default_factory=dict)
    variables: dict[str, np.ndarray] = field(default_factory=dict)
    log: UpdateLog = field(default_factory=UpdateLog)
    begun: list[np.ndarray] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    updates: int = 0
    seconds: dict[int, list[float]] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=lambda: {"pulled": 0, "pushed": 0})
    taken: int = 0
    faults: list[TaskLoss] = field(default_factory=list)
    start: float = 0.0
    build: float = 0.0
    listens: dict[str, list[str]] = field(default_factory=dict)

    @property
    def applied(self) -> list[Applied]:
        """The updates of this run that were written down, in the order of each server."""
        return [one for server, version in enumerate(self.before) for one in self.log.after(server, version)]


def words(ran: Ran) -> list[str]:
    """What is said at the end."""
    servers = f", {counted(ran.servers, 'parameter server')}" if ran.servers else ""
    each = f"{counted(ran.workers, 'worker')}{servers}: {counted(ran.steps, 'step')} each"
    lines = [f"{ran.backend}, {each}, joined by {ran.engine}"]
    for name, array in ran.variables.items():
        lines.append(f"{name} = {array[()]!s}" if array.ndim == 0 else f"{name}: {array.dtype}{list(array.shape)}")
    if ran.servers:
        lines.append(f"{counted(ran.updates, 'update')}, each applied once")
    for fault in ran.faults:
        lines.append(f"{fault.task} was lost at step {fault.step}: {fault.why}")
    return lines
