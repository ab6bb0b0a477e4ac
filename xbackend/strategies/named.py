"""The strategies of training by the names that commands and workloads use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xbackend.errors import ArgumentError
from xbackend.strategies.mirrored import Mirrored
from xbackend.strategies.one_device import ModelParallel, OneDevice
from xbackend.strategies.strategy import Strategy
from xbackend.strategies.towers import Towers

NAMES = ("one", "towers", "mirrored", "model")
REPLICATED = ("towers", "mirrored")  # one replica for each device


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
