"""Training by towers: a gradient on each device, their average and one update on one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xbackend.devices import Device, canonical
from xbackend.strategies.strategy import (
    Copy,
    Loss,
    Part,
    Replica,
    Stepped,
    Strategy,
    Updates,
    gradients,
    mean,
    merged,
    moved,
    on,
    replicas_of,
)


@dataclass(frozen=True)
class Towers(Strategy):
    """A replica on each of ``devices``. The variables are on the device ``on``, where the gradients are averaged,
    weighted by rows, and one update is made. ('Tower' is TensorFlow 1's word for a replica.)

    An entry of ``devices`` is a device, or, for a loss that names devices itself (model parallel), a mapping of the
    names in it to those of this replica.
    """

    devices: Sequence[Any]
    on: str | Device = "cpu:0"

    def __post_init__(self) -> None:
        replicas_of(self.devices)

    @property
    def replicas(self) -> tuple[Replica, ...]:  # type: ignore[override]
        return replicas_of(self.devices)

    @property
    def splits_on(self) -> str:
        return canonical(self.on)

    def place(self, name: str, number: int) -> str | None:
        return canonical(self.on)

    def _step(self, loss: Loss, copies: Sequence[Copy], optimizer: Updates, parts: Sequence[Part]) -> Stepped:
        (copy,) = copies
        found, by_replica = [], []
        for replica, part in zip(self.replicas, parts, strict=True):
            with replica.scopes():
                scalars, by_weight = gradients(loss, copy.weights, part)
            found.append(scalars)
            by_replica.append(by_weight)
        with on(self.splits_on):
            means = {name: mean([one[name] for one in by_replica], parts) for name in copy.weights}
            result = merged(found, parts)
        return *result, [moved(copy, optimizer, means, lambda name: self.splits_on)]
