"""Meshes of devices: their positions, and the shards of arrays there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.bring.jax.devices import named

# The split axes of an array, each with the axes of the mesh that split it, the slowest first.
Split = tuple[tuple[int, tuple[str, ...]], ...]


def split_of(spec: Iterable[Any]) -> Split:
    """The split axes of a `jax.sharding.PartitionSpec`."""
    each = ((axis, one if isinstance(one, tuple) else (one,)) for axis, one in enumerate(spec) if one is not None)
    return tuple((axis, names) for axis, names in each if names)


@dataclass(frozen=True)
class Mesh:
    """The positions of a mesh, numbered in the order of its axes, the last one fastest.

    Attributes:
        axes: the length of each axis, by name.
        devices: the device of each position, by its name in a program.
    """

    axes: Mapping[str, int]
    devices: tuple[str, ...]

    def index(self, position: int, names: Sequence[str]) -> int:
        """The index of a position along several axes at once."""
        own = dict(zip(self.axes, np.unravel_index(position, tuple(self.axes.values())), strict=True))
        return int(np.ravel_multi_index([own[one] for one in names], [self.axes[one] for one in names]))

    def groups(self, names: Sequence[str], within: Sequence[Sequence[int]] | None = None) -> list[list[int]]:
        """The groups of positions that a collective over these axes joins, in the order of their indices along them.
        ``within``: groups of such indices (JAX's ``axis_index_groups``)."""
        found = self._ordered(names).reshape(prod(self.axes[one] for one in names), -1).T.tolist()
        return found if within is None else [[one[i] for i in group] for one in found for group in within]

    def _ordered(self, names: Sequence[str]) -> np.ndarray:
        """The positions as an array with the axes of the mesh, these in front."""
        numbers = np.arange(len(self.devices)).reshape(tuple(self.axes.values()))
        own = list(self.axes)
        return np.moveaxis(numbers, [own.index(one) for one in names], range(len(names)))

    def shards(self, array: Any, split: Split) -> list[Any]:
        """The shard of an array at each position, on the array's own device."""
        if not split:
            return [array] * len(self.devices)

        @cache
        def part(*place: int) -> Any:
            key = [slice(None)] * len(array.shape)
            for (axis, names), index in zip(split, place, strict=True):
                length = array.shape[axis] // prod(self.axes[one] for one in names)
                key[axis] = slice(index * length, (index + 1) * length)
            return xb.asarray(array)[tuple(key)]

        return [part(*(self.index(k, names) for _, names in split)) for k in range(len(self.devices))]

    def whole(self, shards: Sequence[Any], split: Split) -> Any:
        """The array joined from its shards. Along axes of the mesh that do not split it, shards are equal: the first is
        taken."""
        counts = [prod(self.axes[one] for one in names) for _, names in split]
        numbers = self._ordered([one for _, names in split for one in names]).reshape(*counts, -1)[..., 0]

        def joined(numbers: np.ndarray, axes: Sequence[int]) -> Any:
            if not axes:
                return shards[int(numbers)]
            each = [joined(one, axes[1:]) for one in numbers]
            return xb.concat(each, axis=axes[0]) if len(each) > 1 else each[0]

        return joined(numbers, [axis for axis, _ in split])


def mesh_of(mesh: Any, manual: Iterable[str]) -> Mesh:
    """A mesh of JAX with its ``manual`` axes only. Devices of an abstract one are ``dev0``, ``dev1`` and so on."""
    # Not a dict: meshes with another order of the axes are not equal.
    axes = OrderedDict((name, int(length)) for name, length in mesh.shape.items() if name in set(manual))
    devices = getattr(mesh, "devices", None) if type(mesh).__name__ == "Mesh" else None
    if devices is None:
        return Mesh(axes, tuple(f"dev{i}" for i in range(prod(axes.values()))))
    kept = devices[tuple(slice(None) if name in axes else 0 for name in mesh.axis_names)]
    return Mesh(axes, tuple(named(one) for one in kept.flat))
