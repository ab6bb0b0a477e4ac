"""Reordering, repeating and splitting of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xbackend.api.functions.indexing import getitem, take
from xbackend.api.functions.manipulation import broadcast_to, concat, permute_dims, reshape
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import copied, given, integer, normalize_axes, normalize_axis, operands, sequence
from xbackend.api.tracing.casting import shape as as_shape
from xbackend.errors import ShapeError, TraceError
from xbackend.program.dtypes import DType
from xbackend.program.shapes import broadcast_shapes as common_shape


def _along(array: Array, axis: int, part: Any) -> Array:
    return getitem(array, (*(slice(None),) * axis, part))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which the shapes broadcast. Raises `ShapeError`.

    >>> xb.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return common_shape(*map(as_shape, shapes))


def broadcast_arrays(*arrays: Any) -> tuple[Array, ...]:
    """The arrays, each repeated to the shape to which all broadcast; their dtypes stay.

    >>> [x.shape for x in xp.broadcast_arrays(xp.ones((2, 1)), xp.ones(3))]
    [(2, 3), (2, 3)]
    """
    each = [given("broadcast_arrays", a) for a in arrays]
    shape = common_shape(*(a.shape for a in each))
    return tuple(broadcast_to(a, shape) for a in each)


def flip(x: Any, /, *, axis: Any = None) -> Array:
    """The array with the elements of the axes (all if None) from the last to the first.

    >>> xp.flip(xp.asarray([1, 2, 3]))
    array([3, 2, 1], dtype=int64, device=cpu:0)
    """
    array = given("flip", x)
    axes = normalize_axes(axis, array.ndim)
    return getitem(array, tuple(slice(None, None, -1 if a in axes else None) for a in range(array.ndim)))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Array:
    """The array with axes moved to other positions; the other axes keep their order.

    >>> xp.moveaxis(xp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    array = given("moveaxis", x)
    pairs = [[normalize_axis(a, array.ndim) for a in sequence(axes, "axis")] for axes in (source, destination)]
    if len(pairs[0]) != len(pairs[1]) or any(len(set(p)) != len(p) for p in pairs):
        raise ShapeError(f"moveaxis of the axes {source} to {destination}: as many, and each once")
    order = [a for a in range(array.ndim) if a not in pairs[0]]
    for there, axis in sorted(zip(pairs[1], pairs[0], strict=True)):
        order.insert(there, axis)
    return permute_dims(array, order)


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Array:
    """The array with its elements shifted along the axes; the last ones become the first. Without axes it is shifted
    as if it were flat.

    >>> xp.roll(xp.asarray([1, 2, 3]), 1)
    array([3, 1, 2], dtype=int64, device=cpu:0)
    """
    array = given("roll", x)
    if axis is None:
        number = integer(shift)
        if number is None:
            raise TraceError(f"roll by {shift!r:.60} without an axis: it is one integer, known while tracing")
        return reshape(_rolled(reshape(array, (-1,)), number, 0), array.shape) if array.size else copied(array)
    axes = [normalize_axis(a, array.ndim) for a in sequence(axis, "axis")]
    shifts = sequence(shift, "shift")
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise ShapeError(f"roll by {shift} along {axis}: there are {len(shifts)} shifts and {len(axes)} axes")
    for number, along in zip(shifts, axes, strict=True):
        array = _rolled(array, number, along)
    return copied(array) if not axes else array


def _rolled(array: Array, shift: int, axis: int) -> Array:
    length = array.shape[axis]
    first = length - shift % length if length else 0
    if first in (0, length):
        return copied(array)
    return concat([_along(array, axis, slice(first, None)), _along(array, axis, slice(None, first))], axis=axis)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Each element repeated, along the axis or in row-major order.

    ``repeats`` is one integer, or one for each element, known while tracing as the shape depends on it. Raises
    `TraceError` for traced arrays.

    >>> xp.repeat(xp.asarray([1, 2]), 2)
    array([1, 1, 2, 2], dtype=int64, device=cpu:0)
    """
    array = given("repeat", x)
    array, along = (reshape(array, (array.size,)), 0) if axis is None else (array, normalize_axis(axis, array.ndim))
    if isinstance(repeats, Array):
        raise TraceError("xb.repeat takes numbers of repeats that are known while tracing: the shape depends on them")
    counts, length = sequence(repeats, "repeats"), array.shape[along]
    if any(n < 0 for n in counts) or len(counts) not in (1, length):
        raise ShapeError(
            f"xb.repeat of {length} elements by {repeats!r:.60}: one number, or one for each, none negative"
        )
    if len(counts) > 1 or not length:
        return take(array, np.repeat(np.arange(length), np.asarray(counts, np.int64)), axis=along)
    before, behind = array.shape[: along + 1], array.shape[along + 1 :]
    apart = broadcast_to(reshape(array, (*before, 1, *behind)), (*before, counts[0], *behind))
    return reshape(apart, (*before[:-1], length * counts[0], *behind))


def tile(x: Any, repetitions: Sequence[int], /) -> Array:
    """The whole array repeated along each axis. Missing axes, or repetitions, are added in front as 1.

    >>> xp.tile(xp.asarray([1, 2]), (2, 2))
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int64, device=cpu:0)
    """
    array = given("tile", x)
    counts = as_shape(repetitions)
    rank = max(array.ndim, len(counts))
    shape = (1,) * (rank - array.ndim) + array.shape
    counts = (1,) * (rank - len(counts)) + counts
    apart = reshape(array, tuple(n for length in shape for n in (1, length)))
    wide = broadcast_to(apart, tuple(n for pair in zip(counts, shape, strict=True) for n in pair))
    return reshape(wide, tuple(count * n for count, n in zip(counts, shape, strict=True)))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of the array along the axis, without that axis.

    >>> xp.unstack(xp.asarray([[1, 2], [3, 4]]))
    (array([1, 2], dtype=int64, device=cpu:0), array([3, 4], dtype=int64, device=cpu:0))
    """
    array = given("unstack", x)
    number = normalize_axis(axis, array.ndim)
    return tuple(_along(array, number, i) for i in range(array.shape[number]))


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Array:
    """The differences of neighbours along the axis, taken n times; for bool, whether they differ. ``prepend`` and
    ``append`` are concatenated first.

    >>> xp.diff(xp.asarray([1, 4, 9]))
    array([3, 5], dtype=int64, device=cpu:0)
    """
    parts = [given("diff", p) for p in (prepend, x, append) if p is not None]
    number, times = normalize_axis(axis, parts[-1 if append is None else -2].ndim), integer(n)
    if times is None or times < 0:
        raise TraceError(f"xb.diff {n!r:.40} times: it is a non-negative integer")
    array = concat(operands("diff", *parts), axis=number) if len(parts) > 1 else copied(parts[0])
    for _ in range(times):
        later, earlier = _along(array, number, slice(1, None)), _along(array, number, slice(None, -1))
        array = later != earlier if array.dtype is DType.bool else later - earlier
    return array


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Array, ...]:
    """Vectors as arrays of all combinations, each varying along its own axis; ``"xy"`` swaps the first two axes.

    >>> xp.meshgrid(xp.asarray([1, 2]), xp.asarray([3, 4]), indexing="ij")
    (array([[1, 1],
           [2, 2]], dtype=int64, device=cpu:0), array([[3, 4],
           [3, 4]], dtype=int64, device=cpu:0))
    """
    if indexing not in ("xy", "ij"):
        raise TraceError(f"xb.meshgrid has the indexing 'xy' and 'ij', not {indexing!r:.40}")
    vectors = [given("meshgrid", a) for a in arrays]
    if any(v.ndim > 1 for v in vectors):
        raise ShapeError(f"xb.meshgrid takes vectors, not shapes {', '.join(str(v.shape) for v in vectors)}")
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = 1, 0
    shape = tuple(vectors[i].size for i in order)
    each = [reshape(v, tuple(v.size if j == i else 1 for j in order)) for i, v in enumerate(vectors)]
    return tuple(broadcast_to(vector, shape) for vector in each)
