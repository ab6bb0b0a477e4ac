"""What `xbackend train` leaves behind: what became of a model on each backend and with each strategy, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from xbackend.results.schema import Amount, Count, Machine, Positive, Round, Status, sealed, unsealed

FORMAT = "xbackend.trained"
VERSION = 1


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch: its number, the steps made since training began, and means over the rows, of both scopes."""

    number: Count
    steps: Count
    train: Mapping[str, float]
    test: Mapping[str, float] = msgspec.field(default_factory=dict)


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """A model trained on a backend with a strategy, or why it was not.

    Attributes:
        devices: how many were asked for; ``places`` are those, in the order of the logical names.
        began: the steps that were made before, by the training whose checkpoint it went on from.
        losses: of each step, in order.
        seconds, rows: from the end of a step to that of the next, and rows of its batch; a first step of a shape, which
            compiles, and what an epoch's end adds are left out.
        memory: the most bytes of arrays on each device at once, by `xbackend.program.memory`.
        transfers: arrays that are moved between devices in a step.
        difference: the largest difference of a weight from that of the first of all, over the largest element of its
            array; `None` of the first.
    """

    backend: str
    strategy: str
    devices: Positive
    places: tuple[str, ...] = ()
    status: Status = "ok"
    reason: str = ""
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)
    began: Count = 0
    epochs: tuple[Passed, ...] = ()
    losses: tuple[float, ...] = ()
    seconds: tuple[Round, ...] = ()
    rows: tuple[Positive, ...] = ()
    memory: Mapping[str, Count] = msgspec.field(default_factory=dict)
    transfers: Count = 0
    difference: Amount | None = None

    def __post_init__(self) -> None:
        if self.status == "ok" and not self.epochs:
            raise ValueError("a training that ended has no epoch")


class Trainings(msgspec.Struct, frozen=True, kw_only=True):
    """All of one call of `xbackend train`. ``summary`` and ``optimizer`` are the model's, in words; ``devices_map`` is
    what devices that it names were bound to."""

    model: str
    summary: str
    optimizer: str
    dtypes: tuple[str, ...]
    batch: Positive
    seed: Count
    created: str
    machine: Machine
    runs: tuple[Trained, ...]
    devices_map: str = ""
    version: Positive = VERSION
    format: str = FORMAT


def encode(trainings: Trainings) -> bytes:
    """The content of a file of trainings."""
    return sealed(trainings)


def load(path: Path) -> Trainings:
    """Read trainings. Raises `StoreError`, `DamagedStore`, `StoreVersionError`."""
    return unsealed(path, Trainings, "xbackend train", "train")
