"""What users write for arrays, axes and shapes, made explicit: promotion, non-negative axes, tuples of lengths."""

from __future__ import annotations

from typing import Any

from xbackend.errors import DTypeError, ShapeError
from xbackend.program.array import Array
from xbackend.program.dtypes import DType, promote, scalar_dtype
from xbackend.program.tracing import Tracer

Scalar = bool | int | float


def is_scalar(value: Any) -> bool:
    return isinstance(value, bool | int | float) and not hasattr(value, "dtype")


def cast(array: Array, dtype: DType) -> Array:
    return array if array.dtype is dtype else array._tracer.emit("astype", (array,), {"dtype": dtype})


def operands(name: str, tracer: Tracer, *values: Any) -> list[Array]:
    """The values as arrays of their common dtype."""
    arrays = [None if is_scalar(v) else tracer.array(v) for v in values]
    known = [a.dtype for a in arrays if a is not None]
    if not known:
        return [tracer.array(v) for v in values]
    dtype = known[0]
    for other in known[1:]:
        common = promote(dtype, other)
        if common is None:
            raise DTypeError(f"{name} of {dtype} and {other} is undefined; convert one of them with xb.astype")
        dtype = common
    result = []
    for value, array in zip(values, arrays, strict=True):
        if array is None:
            if scalar_dtype(value, dtype) is None:
                raise DTypeError(
                    f"{name} of a {dtype} array and the Python {type(value).__name__} {value!r} is undefined; "
                    "convert the array with xb.astype"
                )
            array = tracer.array(value, dtype)
        result.append(cast(array, dtype))
    return result


def normalize_axis(axis: Any, rank: int) -> int:
    """The non-negative number of an axis. Raises `ShapeError`."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise ShapeError(f"axis {axis!r} is not an integer")
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} does not exist in an array of rank {rank}")
    return axis % rank


def normalize_axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    axes = tuple(normalize_axis(a, rank) for a in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axis {axis} names an axis twice")
    return tuple(sorted(axes))


def shape(shape: Any) -> tuple[int, ...]:
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in lengths:
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ShapeError(f"shape {shape!r} is not a tuple of non-negative integers")
    return lengths
