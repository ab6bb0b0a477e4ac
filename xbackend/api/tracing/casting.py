"""Normalisation of users' arguments: promotion of dtypes, non-negative axes, shapes as tuples."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.scopes import place
from xbackend.api.tracing.tracer import current
from xbackend.errors import DTypeError, ShapeError
from xbackend.program.dtypes import DType, promote, scalar_dtype

Scalar = bool | int | float


def given(name: str, x: Any) -> Array:
    """The argument of ``xb.name`` as an array of the program being traced. Raises `TraceError` outside of tracing."""
    return current(f"xb.{name}").array(x)


def emitted(op: str, *arrays: Array, **params: Any) -> Array:
    """The result of an op of one result."""
    return arrays[0]._tracer.emit(op, arrays, params)


def is_scalar(value: Any) -> bool:
    return isinstance(value, bool | int | float) and not hasattr(value, "dtype")


def cast(array: Array, dtype: DType) -> Array:
    return array if array.dtype is dtype else emitted("astype", array, dtype=dtype)


def copied(array: Array) -> Array:
    """The same values as a separate array, with its own gradient."""
    return emitted("reshape", array, shape=array.shape)


def reshaped(array: Array, shape: tuple[int, ...]) -> Array:
    """The array in a shape with as many elements; itself if it has that shape."""
    return array if array.shape == shape else emitted("reshape", array, shape=shape)


def broadcast(array: Array, shape: tuple[int, ...]) -> Array:
    """The array broadcast to a shape; itself if it has that shape."""
    return array if array.shape == shape else emitted("broadcast_to", array, shape=shape)


def converted(array: Array, dtype: DType, copy: bool | None) -> Array:
    """The array in a dtype. If it has that already: with ``copy`` a separate array, else the array itself, transferred
    if the scope asks for another device."""
    if array.dtype is not dtype:
        return cast(array, dtype)
    if copy:
        return copied(array)
    return array if place(None) in (None, array.device) else emitted("transfer", array)


def operands(name: str, *values: Any) -> list[Array]:
    """The arguments of ``xb.name`` as arrays of their common dtype. Raises `DTypeError`."""
    tracer, name = current(f"xb.{name}"), name.removeprefix("linalg.")
    arrays = [None if is_scalar(v) else tracer.array(v) for v in values]
    known = [a.dtype for a in arrays if a is not None]
    if not known:
        return [tracer.array(v) for v in values]
    dtype = common_dtype(name, known, [v for v in values if is_scalar(v)] if len(known) < len(arrays) else ())
    return [cast(tracer.array(v, dtype) if a is None else a, dtype) for v, a in zip(values, arrays, strict=True)]


def truth(array: Array) -> Array:
    """Whether each element is true, or not zero."""
    return array if array.dtype is DType.bool else emitted("not_equal", *operands("not_equal", array, 0))


def common_dtype(name: str, dtypes: Sequence[DType], scalars: Iterable[Scalar]) -> DType:
    """The dtype that dtypes, and Python numbers beside them, promote to. Raises `DTypeError`."""
    dtype = dtypes[0]
    for other in dtypes[1:]:
        common = promote(dtype, other)
        if common is None:
            mask = DType.bool in (dtype, other)
            what = "write xb.where(mask, x, 0), or convert the mask with xb.astype" if mask else ""
            what = what or "convert one of them with xb.astype"
            raise DTypeError(f"{name} of {dtype} and {other} is undefined; {what}")
        dtype = common
    for scalar in scalars:
        if scalar_dtype(scalar, dtype) is None:
            raise DTypeError(
                f"{name} of a {dtype} array and the Python {type(scalar).__name__} {scalar!r} is undefined; "
                "convert the array with xb.astype"
            )
    return dtype


def integer(value: Any) -> int | None:
    """A static integer, Python's or NumPy's; `None` for anything else, bool included."""
    if type(value) is int:
        return value
    if isinstance(value, Array) or type(value).__name__ in ("bool", "bool_") or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except TypeError:  # a NumPy array other than an integer of rank 0
        return None


def normalize_axis(axis: Any, rank: int) -> int:
    """The non-negative number of an axis. Raises `ShapeError`."""
    number = integer(axis)
    if number is None:
        raise ShapeError(f"axis {axis!r} is not an integer")
    if not -rank <= number < rank:
        raise ShapeError(f"axis {axis} does not exist in an array of rank {rank}")
    return number % rank


def normalize_axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    axes = tuple(normalize_axis(a, rank) for a in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axis {axis} names an axis twice")
    return tuple(sorted(axes))


def sequence(numbers: Any, what: str) -> tuple[int, ...]:
    """Whole numbers, one or several. Raises `ShapeError`."""
    # NumPy's arrays of rank 0 are Iterable, and have nothing to iterate over.
    one = isinstance(numbers, Array) or not isinstance(numbers, Iterable) or getattr(numbers, "shape", None) == ()
    several = (numbers,) if one else numbers
    integers = [integer(n) for n in several]
    if None in integers:
        raise ShapeError(f"{what} {numbers!r:.80} is not a tuple of integers")
    return tuple([n for n in integers if n is not None])


def shape(shape: Any) -> tuple[int, ...]:
    """A tuple of lengths. Raises `ShapeError`."""
    lengths = sequence(shape, "shape")
    if any(n < 0 for n in lengths):
        raise ShapeError(f"shape {shape!r} is not a tuple of non-negative integers")
    return lengths
