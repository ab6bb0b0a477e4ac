"""Training without replicas: on one device, or on several that the loss names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xbackend.devices import Device, canonical
from xbackend.errors import ArgumentError
from xbackend.strategies.strategy import Copy, Loss, Part, Replica, Stepped, Strategy, Updates, gradients, merged, moved


class _Single(Strategy):
    def _step(self, loss: Loss, copies: Sequence[Copy], optimizer: Updates, parts: Sequence[Part]) -> Stepped:
        (copy,) = copies
        with self.replicas[0].scopes():
            found, by_weight = gradients(loss, copy.weights, parts[0])
        new = moved(copy, optimizer, by_weight, lambda name: self.place(name, 0))
        return *merged([found], parts), [new]


@dataclass(frozen=True)
class OneDevice(_Single):
    """All on one device: variables, ops and updates."""

    on: str | Device = "dev0"

    @property
    def replicas(self) -> tuple[Replica, ...]:  # type: ignore[override]
        return (Replica.of(self.on),)

    def place(self, name: str, number: int) -> str | None:
        return canonical(self.on)


@dataclass(frozen=True)
class ModelParallel(_Single):
    """Each variable is on its device in ``places``, with its gradient and update. Ops run in the scopes of the loss.

    Raises `ArgumentError` for a weight that ``places`` does not name.
    """

    places: Mapping[str, str | Device]

    @property
    def replicas(self) -> tuple[Replica, ...]:  # type: ignore[override]
        return (Replica(),)

    def place(self, name: str, number: int) -> str | None:
        if name not in self.places:
            listing = ", ".join(map(repr, self.places)) or "none"
            raise ArgumentError(f"ModelParallel has no device for the weight {name!r}; it has those of {listing}")
        return canonical(self.places[name])
