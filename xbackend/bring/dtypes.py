"""Dtypes of a framework in a program, which has neither int8, int16 nor uint16: they are computed in int32.

Results of arithmetic are wrapped to the range of the dtype, as the framework's wrap, unless the ranges of the operands
show that there is nothing to wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring.inputs import fits
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType

SMALL = ("int8", "int16", "uint16")
Range = tuple[int, int]


def held(dtype: str) -> DType:
    """The dtype of the program that holds numbers of a dtype of the framework. Raises `GraphError`."""
    if dtype in SMALL:
        return DType.int32
    if dtype not in list(DType):
        raise no_place(dtype)
    return DType(dtype)


def no_place(dtype: str) -> GraphError:
    """What is said of a dtype that no program has."""
    before = "give numbers" if dtype == "string" else "cast before"
    return GraphError(f"dtype {dtype} has no place in a program, whose dtypes are {', '.join(DType)}: {before}")


def whole_range(dtype: str) -> Range:
    """The smallest and the largest number of a small dtype."""
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def is_within(one: Range, other: Range) -> bool:
    """Whether a range is part of another one."""
    return other[0] <= one[0] and one[1] <= other[1]


def wrapped(array: Any, dtype: str, inside: Range | None = None) -> Any:
    """An int32 array modulo the numbers of a small dtype; ``inside`` is the range that it is known to keep to."""
    low, high = whole_range(dtype)
    if inside is not None and is_within(inside, (low, high)):
        return array
    return xb.subtract(xb.bitwise_and(xb.add(array, -low), high - low), -low)


def in_range(array: Any, dtype: str) -> Any:
    """What was computed for a dtype of the framework, which wraps where it is a small one."""
    return wrapped(array, dtype) if dtype in SMALL else array


def cast(value: Any, before: str, after: str) -> Any:
    """The value of dtype ``before`` in dtype ``after``, as C casts."""
    if not isinstance(value, Array):
        return array(np.asarray(value).astype(after))
    if before == after:
        return value
    if after == "bool":
        return xb.not_equal(value, 0) if before != "bool" else value
    result = xb.astype(value, held(after))
    if after not in SMALL or before == "bool":
        return result
    kept = before in SMALL and is_within(whole_range(before), whole_range(after))
    return result if kept or (before == "uint8" and after != "int8") else wrapped(result, after)


def check(value: Any, shape: Sequence[int | None] | None, dtype: str) -> None:
    """Raises `GraphError` unless the value that a row made has the shape, as far as it is known, and the dtype that the
    framework says."""
    own = value.dtype if isinstance(value, Array) else held(value.dtype.name)
    if not fits(shape, value.shape) or own is not held(dtype):
        said = "of any shape" if shape is None else list(shape)
        raise GraphError(f"its row made {own}{list(value.shape)}, and the framework has {dtype} {said}: report this")


def array(value: Any) -> Any:
    """A known value as what `xbackend.api` takes: small dtypes as int32."""
    if isinstance(value, Array):
        return value
    value = np.asarray(value)
    return value.astype(held(value.dtype.name).value)
