"""Rows of collectives in the body of a `shard_map`: each position of the mesh gets a result of its group's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.functions.collectives import all_reduce
from xbackend.api.tracing.scopes import device as scope
from xbackend.bring.arrays import parts
from xbackend.bring.jax.arrays import ints, same
from xbackend.bring.jax.lockstep import Lockstep
from xbackend.bring.jax.walk import CASTS, JaxprWalk, dtype_of, row
from xbackend.errors import GraphError

# The result at a position: a function of its group's values, its index in the group and its device.
Joining = Callable[[Sequence[Any], int, str], Any]


row(*CASTS, attributes=("axes",))(same)  # casts of JAX's types: values stay as they are


@row("axis_index", attributes=("axis_name",))
def axis_index(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    mesh, position = walk.position
    found = np.asarray(mesh.index(position, _names(equation.params["axis_name"])), np.int32)
    walk.note(equation.outvars[0], found)
    return found


def _names(names: Any) -> tuple[Any, ...]:
    return tuple(names) if isinstance(names, tuple | list) else (names,)


def _groups(walk: Lockstep, equation: Any) -> list[list[int]]:
    """The groups of positions that an equation joins, each in the order of its indices."""
    names = _names(equation.params.get("axes", equation.params.get("axis_name")))
    axes = [one for one in names if not isinstance(one, int)]
    return walk.mesh.groups(axes, equation.params.get("axis_index_groups"))


def _joined(walk: Lockstep, equation: Any, value: Any, function: Joining) -> Any:
    """The result of ``function`` at each position, computed on its device."""
    groups = _groups(walk, equation)
    places = {position: (group, index) for group in groups for index, position in enumerate(group)}

    def made(position: int) -> Any:
        group, index = places[position]
        return function([value[i] for i in group], index, walk.mesh.devices[position])

    return [walk.each(made, range(len(walk.walks)))]


# --- reductions -------------------------------------------------------------------------------------------------------

# By kind: the reduction of two arrays, along axes of one array, and of two arrays of bools.
_REDUCED: dict[str, Sequence[Callable[..., Any]]] = {
    "sum": (xb.add, xb.sum, xb.logical_or),
    "max": (xb.maximum, xb.max, xb.logical_or),
    "min": (xb.minimum, xb.min, xb.logical_and),
}
_SUMS = ("psum", "psum_invariant", "unreduced_psum")
_EXTREMA = ("pmax", "pmin", "unreduced_pmax", "unreduced_pmin")


@row(*_SUMS, *_EXTREMA, attributes=("axes", "axis_index_groups"), wraps=True, together=True)
def reduced(walk: Lockstep, equation: Any, values: list[Any]) -> Any:
    """A sum is `xb.all_reduce`. Sums of unsigned integers, and extrema, are computed on the first device of a group."""
    kind, dtype = equation.primitive.name.removesuffix("_invariant")[-3:], dtype_of(equation.outvars[0])
    of_two, along, of_bools = _REDUCED[kind]
    axes = tuple(one for one in equation.params["axes"] if isinstance(one, int))
    join = None if kind == "sum" and not dtype.startswith("u") else of_bools if dtype == "bool" else of_two
    own = [walk.each(lambda x: along(x, axis=axes) if axes else xb.asarray(x), value) for value in values]
    return [_over_groups(walk, equation, value, join) for value in own]


def _over_groups(walk: Lockstep, equation: Any, value: Any, join: Callable[..., Any] | None) -> tuple[Any, ...]:
    """The reduction of each group's values, at each of its positions; without ``join`` it is `xb.all_reduce`."""
    found: dict[int, Any] = {}
    for group in _groups(walk, equation):
        each = [value[i] for i in group]
        if join is None:
            found.update(zip(group, all_reduce(each, "sum"), strict=True))
            continue
        with scope(walk.mesh.devices[group[0]]):
            total = reduce(join, each)
        found.update({i: xb.to_device(total, walk.mesh.devices[i]) for i in group})
    return tuple(found[i] for i in range(len(walk.walks)))


# --- exchanges --------------------------------------------------------------------------------------------------------

_GATHERED = ("all_gather_dimension", "axis_name", "axis_index_groups", "axis_size", "tiled")


@row("all_gather", "all_gather_invariant", "all_gather_reduced", attributes=_GATHERED, together=True)
def all_gather(walk: Lockstep, equation: Any, values: list[Any]) -> Any:
    axis = int(equation.params["all_gather_dimension"])
    join = xb.concat if equation.params["tiled"] else xb.stack
    return _joined(walk, equation, values[0], lambda each, index, device: join(each, axis=axis))


def _pieces(walk: Lockstep, equation: Any, value: Any, axis: int) -> Any:
    """At each position, its value cut along an axis into equal parts, one for each position of the group."""
    count = len(_groups(walk, equation)[0])
    return walk.each(lambda x: parts(x, axis, (x.shape[axis] // count,) * count), value)


_SCATTERED = ("scatter_dimension", "axis_name", "axis_index_groups", "axis_size", "tiled")


@row("reduce_scatter", "unreduced_reduce_scatter", attributes=_SCATTERED, wraps=True, together=True)
def reduce_scatter(walk: Lockstep, equation: Any, values: list[Any]) -> Any:
    """Each position receives its part of every value of the group, and sums them in the order of the group."""
    axis, tiled = int(equation.params["scatter_dimension"]), equation.params["tiled"]

    def summed(each: Sequence[Any], index: int, device: str) -> Any:
        total = reduce(xb.add, [one[index] for one in each])
        return total if tiled else xb.squeeze(total, axis=axis)

    return _joined(walk, equation, _pieces(walk, equation, values[0], axis), summed)


_EXCHANGED = ("split_axis", "concat_axis", "axis_name", "axis_index_groups", "tiled")


@row("all_to_all", attributes=_EXCHANGED, together=True)
def all_to_all(walk: Lockstep, equation: Any, values: list[Any]) -> Any:
    split, join = int(equation.params["split_axis"]), int(equation.params["concat_axis"])

    def received(each: Sequence[Any], index: int, device: str) -> Any:
        return xb.concat([one[index] for one in each], axis=join)

    return _joined(walk, equation, _pieces(walk, equation, values[0], split), received)


@row("ppermute", attributes=("axis_name", "perm"), together=True)
def ppermute(walk: Lockstep, equation: Any, values: list[Any]) -> Any:
    """A position that receives nothing has zeros."""
    groups = _groups(walk, equation)
    if any(one != sorted(one) for one in groups):  # JAX 0.12 refuses it, and 0.10 sorts the axes
        raise GraphError("axes in another order than the mesh has them have no row: name them in the mesh's order")
    sources = {to % len(groups[0]): source % len(groups[0]) for source, to in map(ints, equation.params["perm"])}

    def received(each: Sequence[Any], index: int, device: str) -> Any:
        return xb.to_device(each[sources[index]], device) if index in sources else xb.zeros_like(each[index])

    return _joined(walk, equation, values[0], received)


@row("pbroadcast", attributes=("axis_name", "source"), together=True)
def pbroadcast(walk: Lockstep, equation: Any, values: list[Any]) -> Any:
    source = int(equation.params["source"])
    return _joined(walk, equation, values[0], lambda each, index, device: xb.to_device(each[source], device))
