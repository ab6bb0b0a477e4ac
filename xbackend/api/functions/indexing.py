"""Indexing, to read and to write: static integers, slices, ``...`` and ``None``, and arrays of integers.

https://data-apis.org/array-api/2025.12/API_specification/indexing.html
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np

from xbackend.api.functions.elementwise import add, where
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import broadcast, cast, copied, emitted, integer, normalize_axis, operands, reshaped
from xbackend.api.tracing.tracer import Tracer, current
from xbackend.errors import DTypeError, ShapeError, TraceError
from xbackend.program.dtypes import DType
from xbackend.program.shapes import broadcast_shapes, broadcasts, slice_lengths
from xbackend.program.shared import SharedVariable

T = TypeVar("T")
Bounds = tuple[int, int | None, int]  # start, stop and step


@dataclass(frozen=True, slots=True)
class _Place:
    """A key: the starts, stops and steps of a slice, whether it is the whole array, the arrays of integers by axis (the
    slice takes these axes whole), and the axes of the result."""

    bounds: dict[str, tuple[int | None, ...]]
    whole: bool
    arrays: dict[int, Array]
    drop: tuple[int, ...]  # the axes indexed by integers, absent from the result
    result: tuple[int | None, ...]  # the length of each axis of the result; `None` for the axes of the index arrays
    in_front: bool  # whether the axes of the index arrays come first, wherever the arrays stand


def from_front(index: int, axis: int, shape: tuple[int, ...], error: type[ShapeError] = ShapeError) -> int:
    """The index from the front. Raises ``error`` out of range."""
    if not -shape[axis] <= index < shape[axis]:
        raise error(f"index {index} is out of range for axis {axis} of shape {shape}")
    return index % shape[axis]


def _expanded(keys: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """The keys with full slices for missing axes, after ``...`` or at the end. Raises `ShapeError`."""
    used = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if used > rank:
        raise ShapeError(f"{used} indices for an array of rank {rank}")
    fill = (slice(None),) * (rank - used)
    ellipses = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(ellipses) > 1:
        raise ShapeError("an index has two ellipses")
    if not ellipses:
        return keys + fill
    return keys[: ellipses[0] + 1] + fill + keys[ellipses[0] + 1 :]


def _slice(item: slice, length: int, axis: int) -> tuple[Bounds, int]:
    """Start, stop and step of a `slice` op, and the length of the result. Raises `ShapeError`."""
    try:
        start, stop, step = item.indices(length)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"slice {item} of axis {axis}: {error}") from None
    count = len(range(start, stop, step))
    # Frameworks would read Python's -1 as the last element.
    last = None if step < 0 and stop < 0 else stop
    return (start, last, step) if count else (0, 0, 1), count


def _indices(tracer: Tracer, item: Any, axis: int, shape: tuple[int, ...]) -> Array:
    """An array of indices. Those known while tracing are checked. Raises `TraceError`, `ShapeError`, `DTypeError`."""
    if not isinstance(item, Array | SharedVariable | np.ndarray | list | tuple):
        raise TraceError(
            f"an array is indexed with integers, slices, ..., None and arrays of integers, not with {item!r:.60}"
        )
    if isinstance(item, list | tuple) and not item:
        item = np.zeros(0, np.int64)
    indices = tracer.array(item)
    if indices.dtype is DType.bool:
        raise TraceError(
            "an array is not indexed with a mask, as the shape of the result would be known in the end only: write "
            "xb.where(mask, x, 0.0)"
        )
    if not indices.dtype.is_integer:
        raise DTypeError(f"an array is indexed with integers, not with {indices.dtype}; convert with xb.astype")
    known = _known(indices)
    if known is not None and known.size:
        for index in (int(known.min()), int(known.max())):
            from_front(index, axis, shape)
    return cast(indices, indices.dtype.wider)


def _known(indices: Array) -> Any:
    """The elements of a constant of the program; `None` for other arrays."""
    return indices._tracer.values[indices.node].params.get("value")


def _place(tracer: Tracer, key: Any, shape: tuple[int, ...]) -> _Place:
    slices, arrays, drop = list[Bounds](), dict[int, Array](), list[int]()
    result, numbers = list["int | None"](), list[int]()
    for place, item in enumerate(_expanded(key if isinstance(key, tuple) else (key,), len(shape))):
        if item is None:
            result.append(1)
        if item is None or item is Ellipsis:
            continue
        axis = len(slices)
        bounds: Bounds = (0, shape[axis], 1)
        if isinstance(item, slice):
            bounds, count = _slice(item, shape[axis], axis)
            result.append(count)
        elif (number := integer(item)) is not None:
            start = from_front(number, axis, shape)
            bounds = (start, start + 1, 1)
            drop.append(axis)
            numbers.append(place)
        else:
            arrays[axis] = _indices(tracer, item, axis, shape)
            numbers.append(place)
            if None not in result:
                result.append(None)
        slices.append(bounds)
    if any(axis not in arrays and axis not in drop for axis in range(min(arrays, default=0), max(arrays, default=0))):
        raise TraceError(
            "arrays of integers in an index stand side by side: write x[:, i, j], or take one axis after the other "
            "with xb.take"
        )
    # As in NumPy: an integer beside arrays counts as an array, and if the arrays are apart, their axes come first.
    apart = bool(numbers) and numbers[-1] - numbers[0] >= len(numbers)
    in_front = apart and any(index.ndim for index in arrays.values())
    if in_front:
        result = [None, *(n for n in result if n is not None)]
    each = {name: tuple(bounds[k] for bounds in slices) for k, name in enumerate(("starts", "stops", "steps"))}
    whole = slices == [(0, n, 1) for n in shape]
    return _Place(each, whole, arrays, tuple(drop), tuple(result), in_front)


def getitem(x: Any, key: Any) -> Array:
    """``x[key]``. Raises `ShapeError` for an index out of range, `TraceError` for masks and other invalid keys."""
    tracer = current("indexing")
    array = tracer.array(x)
    place = _place(tracer, key, array.shape)
    if place.whole and not place.arrays and place.result == array.shape:
        return copied(array)
    if not place.whole:
        # With index arrays, axes are dropped only after `take`.
        array = emitted("slice", array, **place.bounds, drop=() if place.arrays else place.drop)
    inner: tuple[int, ...] = ()
    if place.arrays:
        array, indices = _flat(array, place)
        axis, inner = min(place.arrays), indices.shape
        array = emitted("take", array, indices, axis=axis)
        if place.in_front:
            array = _behind(array, axis, len(inner))
    return reshaped(array, _lengths(place, inner))


def _behind(array: Array, count: int, others: int) -> Array:
    """The array with its first ``count`` axes moved behind the next ``others``."""
    if not count or not others:
        return array
    last = count + others
    return emitted("permute_dims", array, axes=(*range(count, last), *range(count), *range(last, array.ndim)))


def _lengths(place: _Place, inner: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for length in place.result for n in (inner if length is None else (length,)))


def _flat(array: Array, place: _Place) -> tuple[Array, Array]:
    """The array with all indexed axes merged into one, and the indices along it."""
    axes = sorted(place.arrays)
    if len(axes) == 1:
        return array, place.arrays[axes[0]]
    shape = broadcast_shapes(*(place.arrays[a].shape for a in axes))
    first, last = axes[0], axes[-1]
    size = prod(array.shape[first : last + 1])
    each = [_inside(place.arrays[axis], array.shape[axis]) for axis in axes]
    positions = each[0]
    for axis, index in zip(axes[1:], each[1:], strict=True):
        positions = positions * array.shape[axis] + index
    for axis, index in zip(axes, each, strict=True):
        # An index out of range becomes a position out of range, not one in another row.
        if _known(place.arrays[axis]) is None:
            positions = where((index < 0) | (index >= array.shape[axis]), size, positions)
    flat = emitted("reshape", array, shape=(*array.shape[:first], size, *array.shape[last + 1 :]))
    return flat, broadcast(positions, shape)


def _inside(indices: Array, length: int) -> Array:
    """Indices as int64; negative ones become positions from the beginning."""
    index = cast(indices, DType.int64)
    return add(index, cast(index < 0, DType.int64) * length)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Array:
    """The elements of an axis at the indices, an array of integers of any rank.

    A negative index counts from the end. One out of range is an error if it is known while tracing; otherwise the
    standard leaves the result open (docs/indexing.md). ``axis`` may be left out for a vector.

    >>> xp.take(xp.asarray([10, 20, 30]), xp.asarray([2, -3]))
    array([30, 10], dtype=int64, device=cpu:0)
    """
    tracer = current("xb.take")
    array = tracer.array(x)
    if axis is None and array.ndim != 1:
        raise ShapeError(f"xb.take of shape {array.shape} needs an axis")
    number = normalize_axis(0 if axis is None else axis, array.ndim)
    places = indices if integer(indices) is None else np.asarray(indices)
    where = _indices(tracer, places, number, array.shape)
    return tracer.emit("take", (array, where), {"axis": number})


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Array:
    """The elements along an axis at separate indices for each position of the other axes, which broadcast.

    >>> x = xp.asarray([[3, 1], [2, 4]])
    >>> xp.take_along_axis(x, xp.argsort(x))
    array([[1, 3],
           [2, 4]], dtype=int64, device=cpu:0)
    """
    tracer = current("xb.take_along_axis")
    array = tracer.array(x)
    number = normalize_axis(axis, array.ndim)
    where = _indices(tracer, indices, number, array.shape)
    if where.ndim != array.ndim:
        raise ShapeError(f"xb.take_along_axis of ranks {array.ndim} and {where.ndim}: they have to be equal")
    beside = [[n for a, n in enumerate(one.shape) if a != number] for one in (array, where)]
    common = broadcast_shapes(*map(tuple, beside))
    shapes = [(*common[:number], one.shape[number], *common[number:]) for one in (array, where)]
    return emitted("take_along_axis", *map(broadcast, (array, where), shapes), axis=number)


class _Unfinished:
    """Refuses to be an operand, the result of a function or an argument, which all ask for an array."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TraceError("xb.at(x) is no array: xb.at(x)[key].set(value) and .add(value) give one, x[key] reads it")


class At(_Unfinished, Generic[T]):
    """An array to update: ``xb.at(x)[1:, i].set(value)`` and ``.add(value)`` give a new one."""

    def __init__(self, write: Callable[[str, Any, Any], T]) -> None:
        self._write = write  # "set" or "add", the key, the value

    def __getitem__(self, key: Any) -> Written[T]:
        return Written(self._write, key)


class Written(_Unfinished, Generic[T]):
    """The updates of one part of an array."""

    def __init__(self, write: Callable[[str, Any, Any], T], key: Any) -> None:
        self._write, self._key = write, key

    def set(self, value: Any) -> T:
        """The array with the value, which broadcasts, at the key. For a repeated index any of its values may stay."""
        return self._write("set", self._key, value)

    def add(self, value: Any) -> T:
        """The array with the value added at the key. A repeated index adds each of its values."""
        return self._write("add", self._key, value)


def _written(array: Array, how: str, key: Any, value: Any) -> Array:
    tracer, dtype = current(f"xb.at().{how}"), array.dtype
    # In the body of a loop the array is an input of the body, also where `at` was called outside of it.
    array, given = operands(f"at().{how}", array, value)
    if given.dtype is not dtype:
        raise DTypeError(f"xb.at().{how}: {given.dtype} does not go into {dtype}; convert with xb.astype")
    place = _place(tracer, key, array.shape)
    if not place.arrays:
        written = reshaped(_fitting(given, _lengths(place, ())), slice_lengths(place.bounds))
        return emitted(f"slice_{how}", array, written, **place.bounds)
    part = array if place.whole else emitted("slice", array, **place.bounds, drop=())
    flat, indices = _flat(part, place)
    axis = min(place.arrays)
    before, inner, behind = flat.shape[:axis], indices.shape, flat.shape[axis + 1 :]
    values = _fitting(given, _lengths(place, inner))
    if place.in_front:
        values = _behind(reshaped(values, (*inner, *before, *behind)), len(inner), axis)
    values = reshaped(values, (*before, *inner, *behind))
    written = reshaped(emitted(f"take_{how}", flat, indices, values, axis=axis), part.shape)
    return written if place.whole else emitted("slice_set", array, written, **place.bounds)


def _fitting(value: Array, shape: tuple[int, ...]) -> Array:
    """The value broadcast to the shape. Raises `ShapeError`."""
    if not broadcasts(value.shape, shape):
        raise ShapeError(f"a value of shape {value.shape} does not fit into a place of shape {shape}")
    return broadcast(value, shape)


def at(x: Any, /) -> At[Array]:
    """An array to update at a key: ``xb.at(x)[key].set(value)``, ``xb.at(x)[key].add(value)``.

    >>> x = xp.zeros(3)
    >>> xp.at(x)[1:].set(5.0)
    array([0., 5., 5.], dtype=float64, device=cpu:0)
    >>> xp.at(x)[xp.asarray([0, 0])].add(1.0)
    array([2., 0., 0.], dtype=float64, device=cpu:0)
    """
    return At(partial(_written, current("xb.at").array(x)))
