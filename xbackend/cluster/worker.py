"""The launcher's side of a worker: the steps that it has done, and its next ones."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbackend.cluster.jobspec import JobSpec
from xbackend.cluster.programs import ProgramHandle, Shapes
from xbackend.engines.record import KEPT
from xbackend.engines.spec import Task

CHUNK = 0.5  # seconds of steps that a worker takes in one call of the launcher
MOST = KEPT  # steps of a chunk: if the worker is lost with them, a server's record still has their entries


@dataclass
class Batch:
    """The arguments of a step, and the program for their shapes."""

    arrays: list[np.ndarray]
    program: ProgramHandle


@dataclass
class WorkerProgress:
    """A worker that has done ``at`` steps."""

    task: Task
    at: int
    programs: dict[Shapes, ProgramHandle] = field(default_factory=dict)
    ready: list[Batch] = field(default_factory=list)  # of its next steps
    pace: float = 0.0  # seconds of a step; 0 before it has taken one
    said: float = 0.0  # when its step was last reported
    stepping: threading.Lock = field(default_factory=threading.Lock)  # held while it takes steps

    def wanted(self, asked: JobSpec) -> int:
        """How many steps it takes next: none beyond a checkpoint, and only one while its pace is unknown."""
        until = min(asked.steps, self.at - self.at % asked.every + asked.every)
        return min(until - self.at, MOST, max(1, int(CHUNK / self.pace))) if self.pace else 1

    def taken(self, count: int) -> list[Batch]:
        """Take the first ``count`` of the ready batches."""
        batches, self.ready = self.ready[:count], self.ready[count:]
        return batches

    def limit(self, batches: Sequence[Batch], asked: JobSpec) -> float:
        """Seconds that steps with these batches may take. Some frameworks compile at the first call of a program."""
        new = not self.pace or not all(one.program.taken for one in batches)
        return (asked.start_limit if new else asked.limit + self.pace * len(batches)) + 2 * CHUNK

    def told(self, batches: Sequence[Batch]) -> tuple[list[Any], int, list[tuple[int, list[np.ndarray]]]]:
        """A `member.Chunk` of these batches."""
        held = list(dict.fromkeys(one.program.held for one in batches))
        return held, self.at, [(held.index(one.program.held), one.arrays) for one in batches]

    def forget(self) -> None:
        """It has a new process, where nothing is compiled: its next step compiles."""
        self.programs.clear()
        self.ready.clear()
        self.pace = 0.0
