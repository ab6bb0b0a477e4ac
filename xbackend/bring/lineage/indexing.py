"""Reading and writing elements: `Subtensor`, `AdvancedSubtensor` and their `Inc` forms."""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring import dtypes
from xbackend.bring.lineage.endings import entries_of
from xbackend.bring.lineage.walk import LineageWalk, row
from xbackend.errors import GraphError


@row("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1", "AdvancedBooleanSubtensor", props="idx_list")
def read(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    array = walk.array(node.inputs[0])
    array, key, _ = _turned(array, keys_of(walk, node, node.inputs[1:], array.shape))
    return xb.asarray(array)[key]


@row(
    *("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1", "AdvancedBooleanIncSubtensor"),
    props="idx_list set_instead_of_inc ignore_duplicates",
)
def written(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    op, dtype = node.op, node.outputs[0].type.dtype
    array, value = walk.cast(node.inputs[0], dtype), walk.cast(node.inputs[1], dtype)
    if getattr(op, "ignore_duplicates", False):
        raise GraphError("an addition at indices that ignores repeated ones has no row: let it add each")
    mask = _mask(walk, node.inputs[2:], value, array.shape)
    if mask is not None:
        changed = value if op.set_instead_of_inc else dtypes.in_range(xb.add(array, value), dtype)
        return xb.where(mask, changed, array)
    array, key, back = _turned(array, keys_of(walk, node, node.inputs[2:], array.shape))
    place = xb.at(array)[key]
    result = place.set(value) if op.set_instead_of_inc else dtypes.in_range(place.add(value), dtype)
    return result if back is None else xb.permute_dims(result, back)


def _mask(walk: LineageWalk, variables: Any, value: Any, shape: tuple[int, ...]) -> Any:
    """If a traced mask is the whole index and the value is a scalar: the mask with the array's rank; else `None`."""
    mask = walk.value(variables[0]) if len(variables) == 1 else None
    if not isinstance(mask, Array) or mask.dtype is not dtypes.DType.bool or not mask.ndim or np.ndim(value):
        return None
    _check_mask(mask.shape, shape)
    return xb.reshape(mask, (*mask.shape, *(1,) * (len(shape) - mask.ndim)))


def keys_of(walk: LineageWalk, node: Any, variables: Any, shape: tuple[int, ...]) -> list[Any]:
    """The entries of an index, completed by full slices. Known masks become arrays of integers."""
    keys: list[Any] = []
    for entry in entries_of(node, variables):
        key = _key(walk, entry)
        if isinstance(key, np.ndarray) and key.dtype == bool and key.ndim:
            _check_mask(key.shape, shape[sum(one is not None for one in keys) :])
            keys += np.nonzero(key)
        else:
            keys.append(key)
    return keys + [slice(None)] * (len(shape) - sum(one is not None for one in keys))


def _check_mask(own: tuple[int, ...], lengths: tuple[int, ...]) -> None:
    """Raises `GraphError` unless a mask has the lengths of the first of these axes."""
    if own != lengths[: len(own)]:
        raise GraphError(f"a mask of shape {own} is an index of axes of lengths {lengths[: len(own)]}")


def _key(walk: LineageWalk, entry: Any) -> Any:
    if isinstance(entry, slice):
        return slice(*map(walk.bound, (entry.start, entry.stop, entry.step)))
    if entry is None or isinstance(entry, int | np.integer):
        return entry
    value = walk.value(entry)
    if value is None or isinstance(value, slice):
        return value
    if not isinstance(value, Array):
        known = np.asarray(value)
        return known if known.ndim else int(known)
    if value.dtype is dtypes.DType.bool:
        raise GraphError("a mask that depends on the inputs gives a shape that does, too: write a switch in its place")
    return value


def _turned(array: Any, keys: list[Any]) -> tuple[Any, tuple[Any, ...], tuple[int, ...] | None]:
    """The array, the key, and the axes that restore the array's order, or `None`. If slices stand between index arrays,
    the indexed axes are moved to the front, where NumPy has them in the result."""
    arrays = [place for place, key in enumerate(keys) if isinstance(key, np.ndarray | Array)]
    between = [key for place, key in enumerate(keys) if arrays and arrays[0] < place < arrays[-1]]
    if not any(key is None or isinstance(key, slice) for key in between):
        return array, tuple(keys), None
    if any(key is None for key in keys):
        raise GraphError("a new axis beside arrays that stand apart in an index has no row: add the axis before")
    # In NumPy, an integer beside arrays counts as an array.
    front = [place for place, key in enumerate(keys) if not isinstance(key, slice)]
    order = (*front, *(place for place in range(len(keys)) if place not in front))
    back = tuple(np.argsort(order).tolist())
    return xb.permute_dims(xb.asarray(array), order), tuple(keys[place] for place in order), back
