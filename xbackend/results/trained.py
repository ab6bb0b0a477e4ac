"""The results of `xbackend train`: the outcome of a model on each backend and with each strategy, as plain data."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from xbackend.results.schema import Count, Outcome, Outcomes, Positive, Round


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch: its number, the steps made since training began, and means over the rows, of both scopes."""

    number: Count
    steps: Count
    train: Mapping[str, float]
    test: Mapping[str, float] = {}


class Trained(Outcome, frozen=True, kw_only=True):
    """A model trained on a backend with a strategy. ``seconds`` and ``rows`` are without the first step of a shape,
    which compiles, and the work at an epoch's end."""

    strategy: str
    devices: Positive  #: asked for
    places: tuple[str, ...] = ()  #: these devices, in the order of the logical names
    began: Count = 0  #: the steps before the checkpoint from which it went on
    epochs: tuple[Passed, ...] = ()
    losses: tuple[float, ...] = ()  #: of each step, in order
    seconds: tuple[Round, ...] = ()  #: from the end of a step to that of the next
    rows: tuple[Positive, ...] = ()  #: of the batch of each of these
    memory: Mapping[
        str, Count
    ] = {}  #: the most bytes of arrays on each device at once, by `xbackend.program.peak_memory`
    transfers: Count = 0  #: arrays that are moved between devices in a step

    def __post_init__(self) -> None:
        if self.status == "ok" and not self.epochs:
            raise ValueError("a training that ended has no epoch")


class Trainings(Outcomes, frozen=True, kw_only=True):
    """All of one call of `xbackend train`. ``summary`` and ``optimizer`` are the model's, in words; ``devices_map`` are
    the bindings of devices that it names."""

    MADE_BY = "xbackend train", "train"
    model: str
    optimizer: str
    dtypes: tuple[str, ...]
    batch: Positive
    seed: Count
    runs: tuple[Trained, ...]
    devices_map: str = ""
    version: Positive = 1
    format: str = "xbackend.trained"
