"""A framework's dtypes in a program. Programs lack int8, int16 and uint16: they are computed in int32.

Results of arithmetic wrap to the range of the small dtype, as the framework's do, unless the operands' ranges exclude
an overflow.
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
    """The program's dtype for a dtype of the framework: int32 for a small one. Raises `GraphError` if there is none."""
    if dtype in SMALL:
        return DType.int32
    if dtype not in list(DType):
        raise no_place(dtype)
    return DType(dtype)


def no_place(dtype: str) -> GraphError:
    """The error for a dtype that no program has."""
    before = "give numbers" if dtype == "string" else "cast before"
    return GraphError(f"dtype {dtype} has no place in a program, whose dtypes are {', '.join(DType)}: {before}")


def whole_range(dtype: str) -> Range:
    """The smallest and the largest number of a small dtype."""
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def is_within(one: Range, other: Range) -> bool:
    """Whether the first range is part of the other."""
    return other[0] <= one[0] and one[1] <= other[1]


def wrapped(array: Any, dtype: str, inside: Range | None = None) -> Any:
    """An int32 array wrapped to the range of a small dtype; ``inside`` is the known range of its elements."""
    low, high = whole_range(dtype)
    if inside is not None and is_within(inside, (low, high)):
        return array
    return xb.subtract(xb.bitwise_and(xb.add(array, -low), high - low), -low)


def in_range(array: Any, dtype: str) -> Any:
    """A result in a dtype of the framework: wrapped if the dtype is small."""
    return wrapped(array, dtype) if dtype in SMALL else array


def cast(value: Any, before: str, after: str) -> Any:
    """The value, cast from the framework's dtype ``before`` to ``after`` as in C."""
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
    """Raises `GraphError` unless a row's result has the framework's dtype, and its shape as far as that is known."""
    own = value.dtype if isinstance(value, Array) else held(value.dtype.name)
    if not fits(shape, value.shape) or own is not held(dtype):
        said = "of any shape" if shape is None else list(shape)
        raise GraphError(f"its row made {own}{list(value.shape)}, and the framework has {dtype} {said}: report this")


def array(value: Any) -> Any:
    """A value as an operand of `xbackend.api`; a known one of a small dtype as int32."""
    if isinstance(value, Array):
        return value
    value = np.asarray(value)
    return value.astype(held(value.dtype.name).value)
