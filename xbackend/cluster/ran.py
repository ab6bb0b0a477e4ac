"""What became of a job on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbackend.engines.record import Applied


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

    ``outputs``: of each worker, what its function returned at each step it took (large ones of the last step only).
    ``variables``: by the name of their place and theirs, ``/job:ps/task:0/w``. ``noted``: what
    servers wrote down of updates, by server and version. ``seconds``: of each worker's steps after its first one.
    ``moved``: bytes. ``start``: the seconds until all tasks had met, ``build`` from there until each worker had taken
    its first step, with all that was compiled for it.
    """

    backend: str
    engine: str
    workers: int
    servers: int
    steps: int
    outputs: dict[int, dict[int, Any]] = field(default_factory=dict)
    variables: dict[str, np.ndarray] = field(default_factory=dict)
    noted: dict[tuple[int, int], Applied] = field(default_factory=dict)
    begun: list[np.ndarray] = field(default_factory=list)  # the servers' records before the first update
    seconds: dict[int, list[float]] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    start: float = 0.0
    build: float = 0.0
    listens: dict[str, list[str]] = field(default_factory=dict)

    @property
    def applied(self) -> list[Applied]:
        """What servers wrote down of updates, in the order of each."""
        return [one for _, one in sorted(self.noted.items())]


def words(ran: Ran) -> list[str]:
    """What is said at the end."""
    servers = f", {ran.servers} parameter server{'s' * (ran.servers > 1)}" if ran.servers else ""
    lines = [f"{ran.backend}, {ran.workers} workers{servers}: {ran.steps} steps each, joined by {ran.engine}"]
    for name, array in ran.variables.items():
        lines.append(
            f"{name} = {array.item():.17g}" if array.ndim == 0 else f"{name}: {array.dtype}{list(array.shape)}"
        )
    if ran.applied:
        lines.append(f"{len(ran.applied)} updates, each applied once")
    for fault in ran.faults:
        lines.append(f"{fault.task} was lost at step {fault.step}: {fault.why}")
    return lines
