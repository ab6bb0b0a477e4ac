"""Trainings, and jobs on clusters, as rows of plain data: numbers in one unit each, for tables of other programs."""

from __future__ import annotations

import math
from statistics import median

import msgspec

from xbackend.results.clustered import Clustered
from xbackend.results.schema import Outcome
from xbackend.results.trained import Trained


class TrainedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model trained on a backend; ``difference`` of the weights from those of the first, over the largest."""

    backend: str
    strategy: str
    devices: int
    status: str
    reason: str
    difference: float | None
    train: dict[str, float]  # means over the rows of the last epoch
    test: dict[str, float]
    step_seconds: float | None


class ClusterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job on a backend; ``difference`` of the variables from those of the first, over the largest."""

    backend: str
    engine: str
    status: str
    reason: str
    difference: float | None
    start_seconds: float
    step_seconds: float | None
    updates: int
    losses: int  # of tasks
    replayed: bool | None


def row(run: Outcome) -> TrainedRow | ClusterRow:
    """The row of a training, or of a job on a backend."""
    if isinstance(run, Trained):
        return trained(run)
    assert isinstance(run, Clustered)  # there is no third kind
    return clustered(run)


def trained(run: Trained) -> TrainedRow:
    """The row of a training."""
    last = run.epochs[-1] if run.epochs else None
    return TrainedRow(
        backend=run.backend, strategy=run.strategy, devices=run.devices, status=run.status, reason=run.reason,
        difference=finite(run.difference), train=dict(last.train) if last else {},
        test=dict(last.test) if last else {}, step_seconds=median(run.seconds) if run.seconds else None,
    )  # fmt: skip


def clustered(run: Clustered) -> ClusterRow:
    """The row of a job on a backend."""
    seconds = [second for worker in run.seconds for second in worker]
    return ClusterRow(
        backend=run.backend, engine=run.by or run.engine, status=run.status, reason=run.reason,
        difference=finite(run.difference), start_seconds=run.start, step_seconds=median(seconds) if seconds else None,
        updates=run.updates, losses=len(run.faults), replayed=run.replayed,
    )  # fmt: skip


def finite(number: float | None) -> float | None:
    """A number that JSON has, else `None`."""
    return number if number is not None and math.isfinite(number) else None
