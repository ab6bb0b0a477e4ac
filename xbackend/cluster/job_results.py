"""The results of a job on a cluster."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbackend.engines.record import Applied
from xbackend.wording import counted

STEPS_KEPT = 64
SECONDS_KEPT = 1 << 14
_TABLE = """CREATE TABLE updates (server INTEGER, worker INTEGER, step INTEGER, version INTEGER, read TEXT,
    PRIMARY KEY (server, version)) WITHOUT ROWID"""


class UpdateLog:
    """The updates of all servers, by server and version, on disk: the launcher's memory does not grow with the job's
    length. May be used from several threads."""

    def __init__(self) -> None:
        # SQLite keeps a database without a name in a private file, and deletes it when the process ends.
        self._base, self._lock = sqlite3.connect("", check_same_thread=False), threading.Lock()
        self._base.execute(_TABLE)

    def note(self, entries: Iterable[Applied]) -> None:
        """Log updates, each once."""
        rows = [(*one[:4], json.dumps(one.read)) for one in entries]
        with self._lock, self._base:
            self._base.executemany("INSERT OR REPLACE INTO updates VALUES (?, ?, ?, ?, ?)", rows)

    def forget(self, server: int, version: int) -> None:
        """Forget the updates of a server that came after a version."""
        with self._lock, self._base:
            self._base.execute("DELETE FROM updates WHERE server = ? AND version > ?", (server, version))

    def after(self, server: int, version: int) -> Iterator[Applied]:
        """The updates of a server that came after a version, in their order."""
        order = "SELECT * FROM updates WHERE server = ? AND version > ? ORDER BY version"
        for own, worker, step, made, read in self._base.execute(order, (server, version)):
            yield Applied(own, worker, step, made, tuple(json.loads(read)))


@dataclass
class TaskLoss:
    """The loss of a task: at which of its steps, and why."""

    task: str
    step: int
    why: str
    again: str  # what was started again: the task, or all
    seen: float  # when it was lost, by the monotonic clock
    seconds: float = 0.0  # from then until work went on

    def over(self) -> None:
        """Work goes on."""
        self.seconds = self.seconds or time.monotonic() - self.seen


@dataclass
class JobResults:
    """The results of a job.

    ``outputs``: for each worker the function's results at its last `STEPS_KEPT` steps (large ones of the last step
    only). ``variables`` are named by task and name, ``/job:ps/task:0/w``. ``log`` has the servers' entries of updates,
    if asked for. ``begun`` has the servers' records at the start of this run, ``before`` their versions, ``updates``
    the number of updates since. ``seconds``: of each worker's last `SECONDS_KEPT` steps, without its first. ``moved``:
    bytes in the ``taken`` steps of all workers, repeated steps included. ``start``: seconds until all tasks had met.
    ``build``: seconds from then until each worker had taken its first step, with compilation.
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
        """The logged updates of this run, in each server's order."""
        return [one for server, version in enumerate(self.before) for one in self.log.after(server, version)]


def words(ran: JobResults) -> list[str]:
    """The lines at the end of a job."""
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
