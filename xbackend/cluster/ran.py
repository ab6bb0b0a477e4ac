"""What became of a job on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbackend.engines.record import Applied
from xbackend.wording import counted

STEPS_KEPT = 64
SECONDS_KEPT = 1 << 14


@dataclass(frozen=True)
class Fault:
    """A task that was lost: at which of its steps, why, and the seconds until it was seen and until work went on."""

    task: str
    step: int
    why: str
    again: str  # what was started again: the task, or all
    seconds: float = 0.0


@dataclass
class Ran:
    """What became of a job.

    ``outputs``: of each worker, what its function returned at the last `STEPS_KEPT` steps that it took (large ones of
    the last step only). ``variables``: by the name of their place and theirs, ``/job:ps/task:0/w``. ``noted``: what
    servers wrote down of updates, by server and version, where that is asked for; ``before`` are the versions of the
    servers where this run began, ``begun`` their records then, ``updates`` those that they applied since. ``seconds``:
    of each worker's last `SECONDS_KEPT` steps, but for its first one. ``moved``: bytes, in the ``taken`` steps of all
    workers, those that were repeated after a loss included. ``start``: the seconds until all tasks had met, ``build``
    from there until each worker had taken its first step, with all that was compiled for it.
    """

    backend: str
    engine: str
    workers: int
    servers: int
    steps: int
    outputs: dict[int, dict[int, Any]] = field(default_factory=dict)
    variables: dict[str, np.ndarray] = field(default_factory=dict)
    noted: dict[tuple[int, int], Applied] = field(default_factory=dict)
    begun: list[np.ndarray] = field(default_factory=list)
    updates: int = 0
    seconds: dict[int, list[float]] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    taken: int = 0
    before: dict[int, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    start: float = 0.0
    build: float = 0.0
    listens: dict[str, list[str]] = field(default_factory=dict)

    @property
    def applied(self) -> list[Applied]:
        """What servers wrote down of the updates of this run, in the order of each."""
        return [one for (server, version), one in sorted(self.noted.items()) if version > self.before.get(server, 0)]


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
