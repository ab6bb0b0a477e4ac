"""Mirrored training: every variable on every device, gradients all-reduced, every copy updated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xbackend.api.functions.collectives import all_reduce
from xbackend.devices import Device
from xbackend.strategies.strategy import (
    Copy,
    Loss,
    Part,
    Replica,
    Stepped,
    Strategy,
    Updates,
    gradients,
    merged,
    moved,
    on,
    replicas_of,
)


@dataclass(frozen=True)
class Mirrored(Strategy):
    """A copy of every variable on each of ``devices``. The gradients are all-reduced to their mean, weighted by rows.
    Every copy is updated by the same numbers in the same order: after each step all are equal to the bit.

    Data times model parallel: an entry of ``devices`` maps the names in the loss to the devices of this replica, and
    ``places`` maps each variable to one of these names (the first by default).
    """

    devices: Sequence[Any]
    places: Mapping[str, str | Device] = field(default_factory=dict)

    def __post_init__(self) -> None:
        replicas_of(self.devices)

    @property
    def replicas(self) -> tuple[Replica, ...]:  # type: ignore[override]
        return replicas_of(self.devices)

    @property
    def copies(self) -> int:  # type: ignore[override]
        return len(self.devices)

    def place(self, name: str, number: int) -> str | None:
        where = self.places.get(name)
        return self.replicas[number].meant(None if where is None else str(where))

    def _step(self, loss: Loss, copies: Sequence[Copy], optimizer: Updates, parts: Sequence[Part]) -> Stepped:
        found, by_replica = [], []
        for copy, replica, part in zip(copies, self.replicas, parts, strict=True):
            with replica.scopes():
                scalars, by_weight = gradients(loss, copy.weights, part)
            found.append(scalars)
            by_replica.append(by_weight)
        rows = [part.rows for part in parts]
        reduced = {name: all_reduce([one[name] for one in by_replica], "mean", weights=rows) for name in by_replica[0]}
        new = []
        for number, copy in enumerate(copies):
            own = {name: values[number] for name, values in reduced.items()}
            new.append(moved(copy, optimizer, own, partial(self.place, number=number)))
        with on(self.splits_on):
            return *merged(found, parts), new
