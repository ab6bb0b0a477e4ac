"""Shapes and devices of arrays, with the same elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product
from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import copied, emitted, given, normalize_axes, normalize_axis, operands, sequence
from xbackend.api.tracing.casting import shape as as_shape
from xbackend.devices import Device, canonical
from xbackend.errors import ShapeError


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Array:
    """The same elements, in row-major order, in another shape. One length may be -1: it is inferred.

    ``copy`` is the standard's and has no effect, as arrays of a program never change.

    >>> xp.reshape(xp.arange(6), (2, -1))
    array([[0, 1, 2],
           [3, 4, 5]], dtype=int64, device=cpu:0)
    """
    array = given("reshape", x)
    lengths = list(sequence(shape, "shape"))
    if lengths.count(-1) == 1:
        known = product(n for n in lengths if n != -1)
        if known == 0 or array.size % known:
            raise ShapeError(f"cannot reshape {array.shape} ({array.size} elements) to {tuple(lengths)}")
        lengths[lengths.index(-1)] = array.size // known
    return emitted("reshape", array, shape=as_shape(lengths))


def expand_dims(x: Any, /, axis: Any = 0) -> Array:
    """The array with a new axis of length 1 at the position, or at several positions, in the result.

    >>> xp.expand_dims(xp.ones((2, 3)), axis=1).shape
    (2, 1, 3)
    """
    array = given("expand_dims", x)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    new = normalize_axes(axes, array.ndim + len(axes))
    lengths = iter(array.shape)
    return reshape(array, tuple(1 if a in new else next(lengths) for a in range(array.ndim + len(axes))))


def squeeze(x: Any, /, axis: Any) -> Array:
    """The array without the axes, which must have length 1.

    >>> xp.squeeze(xp.ones((2, 1, 3)), axis=1).shape
    (2, 3)
    """
    array = given("squeeze", x)
    axes = normalize_axes(axis, array.ndim)
    for a in axes:
        if array.shape[a] != 1:
            raise ShapeError(f"cannot squeeze axis {a} of shape {array.shape}: its length is {array.shape[a]}")
    return reshape(array, tuple(n for a, n in enumerate(array.shape) if a not in axes))


def permute_dims(x: Any, /, axes: Sequence[int]) -> Array:
    """The array with its axes in another order.

    >>> xp.permute_dims(xp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    array = given("permute_dims", x)
    return emitted("permute_dims", array, axes=tuple(normalize_axis(a, array.ndim) for a in sequence(axes, "axes")))


def matrix_transpose(x: Any, /) -> Array:
    """The array with its last two axes exchanged.

    >>> xp.matrix_transpose(xp.asarray([[1, 2], [3, 4]]))
    array([[1, 3],
           [2, 4]], dtype=int64, device=cpu:0)
    """
    array = given("matrix_transpose", x)
    if array.ndim < 2:
        raise ShapeError(f"matrix_transpose needs a matrix, this has shape {array.shape}")
    return permute_dims(array, (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2))


def broadcast_to(x: Any, /, shape: Any) -> Array:
    """The array repeated to the shape, as broadcasting would.

    >>> xp.broadcast_to(xp.asarray([1, 2]), (2, 2))
    array([[1, 2],
           [1, 2]], dtype=int64, device=cpu:0)
    """
    array, target = given("broadcast_to", x), as_shape(shape)
    return copied(array) if target == array.shape else emitted("broadcast_to", array, shape=target)


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Array:
    """The arrays one after the other along the axis (`None`: each flattened first); dtypes promote.

    >>> xp.concat([xp.asarray([1, 2]), xp.asarray([3])])
    array([1, 2, 3], dtype=int64, device=cpu:0)
    """
    parts = _parts("concat", arrays)
    if axis is None:
        parts, axis = [reshape(p, (p.size,)) for p in parts], 0
    return emitted("concat", *parts, axis=normalize_axis(axis, parts[0].ndim))


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Array:
    """The arrays, all of the same shape, along a new axis; dtypes promote.

    >>> xp.stack([xp.asarray([1, 2]), xp.asarray([3, 4])], axis=1)
    array([[1, 3],
           [2, 4]], dtype=int64, device=cpu:0)
    """
    parts = _parts("stack", arrays)
    return emitted("stack", *parts, axis=normalize_axis(axis, parts[0].ndim + 1))


def _parts(name: str, arrays: Sequence[Any]) -> list[Array]:
    parts = [given(name, a) for a in arrays]  # numbers too are arrays here
    if not parts:
        raise ShapeError(f"{name} of no arrays")
    return operands(name, *parts)


def to_device(x: Any, device: str | Device, /) -> Array:
    """The same values on another device or logical device: a transfer, unless they are there already.

    >>> str(xp.to_device(xp.ones(2), "cpu:1").device)
    'cpu:1'
    """
    array = given("to_device", x)
    return array._tracer.emit("transfer", (array,), {}, canonical(device))
