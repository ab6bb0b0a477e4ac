"""The strategies of training, and the names by which commands and workloads know them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xbackend.api.functions.collectives import all_reduce
from xbackend.api.tracing.array import Array
from xbackend.devices import Device, canonical
from xbackend.errors import ArgumentError
from xbackend.strategies.replication import Replica, replicas_of
from xbackend.strategies.strategy import Share, Strategy

NAMES = ("one", "towers", "mirrored", "model")
REPLICATED = ("towers", "mirrored")  # one replica for each device


@dataclass(frozen=True)
class OneDevice(Strategy):
    """All on one device: variables, ops and updates.

    >>> xb.strategies.OneDevice("gpu:0").place("w", 0)
    'gpu:0'
    """

    on: str | Device = "dev0"

    @property
    def replicas(self) -> tuple[Replica, ...]:  # type: ignore[override]
        return (Replica.of(self.on),)

    def place(self, name: str, number: int) -> str | None:
        return canonical(self.on)


@dataclass(frozen=True)
class ModelParallel(Strategy):
    """Each variable is on its device in ``places``, with its gradient and update. Ops run in the scopes of the loss.

    Raises `ArgumentError` for a weight that ``places`` does not name.

    >>> strategy = xb.strategies.ModelParallel({"w": "dev0", "v": "dev1"})
    >>> strategy.place("v", 0), len(strategy.replicas)
    ('dev1', 1)
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


@dataclass(frozen=True)
class _Replicated(Strategy):
    devices: Sequence[Any]
    replicas: tuple[Replica, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.devices, Iterator):  # it can be read once only
            object.__setattr__(self, "devices", tuple(self.devices))
        object.__setattr__(self, "replicas", replicas_of(self.devices))


@dataclass(frozen=True)
class Towers(_Replicated):
    """A replica on each of ``devices``. The variables are on the device ``on``, where the gradients are averaged,
    weighted by rows, and one update is made. ('Tower' is TensorFlow 1's word for a replica.)

    An entry of ``devices`` is a device, or, for a loss that names devices itself (model parallel), a mapping of the
    names in it to those of this replica.

    >>> towers = xb.strategies.Towers(("gpu:0", "gpu:1"), on="cpu:0")
    >>> [replica.place for replica in towers.replicas], towers.place("w", 0)
    (['gpu:0', 'gpu:1'], 'cpu:0')
    """

    on: str | Device = "cpu:0"

    @property
    def splits_on(self) -> str:
        return canonical(self.on)

    def place(self, name: str, number: int) -> str | None:
        return self.splits_on


@dataclass(frozen=True)
class Mirrored(_Replicated):
    """A copy of every variable on each of ``devices``. The gradients are all-reduced to their mean, weighted by rows.
    Every copy is updated by the same numbers in the same order: after each step all are equal to the bit.

    Data times model parallel: an entry of ``devices`` maps the names in the loss to the devices of this replica, and
    ``places`` maps each variable to one of these names (the first by default).

    >>> mirrored = xb.strategies.Mirrored(("gpu:0", "gpu:1"))
    >>> mirrored.copies, mirrored.place("w", 1)
    (2, 'gpu:1')
    """

    places: Mapping[str, str | Device] = field(default_factory=dict)

    @property
    def copies(self) -> int:  # type: ignore[override]
        return len(self.replicas)

    def place(self, name: str, number: int) -> str | None:
        where = self.places.get(name)
        return self.replicas[number].meant(None if where is None else str(where))

    def _reduced(self, found: Sequence[Mapping[str, Array]], parts: Sequence[Share]) -> list[dict[str, Array]]:
        rows = [part.rows for part in parts]
        reduced = {name: all_reduce([one[name] for one in found], "mean", weights=rows) for name in found[0]}
        return [{name: values[number] for name, values in reduced.items()} for number in range(self.copies)]


def named(name: str, devices: Sequence[str], places: Mapping[str, str]) -> Strategy:
    """The strategy of this name. ``one`` uses the first of ``devices``, ``towers`` and ``mirrored`` have a replica on
    each, and ``model`` has each variable at its place in ``places``. Towers average on the first device.

    Raises `ArgumentError` for another name, and for ``model`` without places.
    """
    if name not in NAMES:
        raise ArgumentError(f"strategy {name!r:.40}: there is {', '.join(NAMES)}")
    if name == "model":
        if not places:
            raise ArgumentError(
                "strategy model: the model says of no weight where it is; give @xb.model(places={'w': 'cpu:0', ...})"
            )
        return ModelParallel(places)
    if name == "one":
        return OneDevice(devices[0])
    return Towers(devices, on=devices[0]) if name == "towers" else Mirrored(devices)
