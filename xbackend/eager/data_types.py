"""What is asked of dtypes.

https://data-apis.org/array-api/2025.12/API_specification/data_type_functions.html
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from xbackend.errors import ArgumentError, DTypeError
from xbackend.program.dtypes import DType, as_dtype, promote, scalar_dtype

# The letters of NumPy's kinds that the standard's kinds are.
KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """``bits``, the distance ``eps`` from 1.0 to the next number, the largest, the lowest and the smallest normal one."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """``bits``, and the largest and the smallest number."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype(value: Any) -> DType:
    """The dtype that is meant, or that of an array."""
    return as_dtype(value if isinstance(value, DType) else getattr(value, "dtype", value))


def finfo(type: Any, /) -> FloatInfo:
    """What can be represented by a floating-point dtype, or that of an array. Raises `DTypeError`."""
    dtype = _dtype(type)
    if not dtype.is_floating:
        raise DTypeError(f"finfo is for floating-point dtypes, not {dtype}; use iinfo")
    info = np.finfo(dtype.value)
    numbers = [float(n) for n in (info.eps, info.max, info.min, info.tiny)]
    return FloatInfo(int(info.bits), *numbers, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """What can be represented by an integer dtype, or that of an array. Raises `DTypeError`."""
    dtype = _dtype(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo is for integer dtypes, not {dtype}; use finfo")
    info = np.iinfo(dtype.value)
    return IntegerInfo(int(info.bits), int(info.max), int(info.min), dtype)


def is_kind(dtype: DType, kind: str) -> bool:
    """Whether a dtype is of one of the standard's kinds. Raises `ArgumentError`."""
    letters = KINDS.get(kind) if isinstance(kind, str) else None
    if letters is None:
        raise ArgumentError(f"there is no kind {kind!r:.60} of dtypes; there is {', '.join(KINDS)}")
    return np.dtype(dtype.value).kind in letters


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another one, or of a kind (``"real floating"``), or of one of a tuple of these."""
    own = as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(is_kind(own, k) if not isinstance(k, DType) and k in KINDS else own is as_dtype(k) for k in kinds)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype to which arrays, dtypes and Python numbers promote. Raises `DTypeError` where that is undefined."""
    numbers = [a for a in arrays_and_dtypes if type(a) in (bool, int, float)]
    dtypes = [_dtype(a) for a in arrays_and_dtypes if type(a) not in (bool, int, float)]
    if not dtypes:
        raise ArgumentError("result_type takes at least one array or dtype")

    def common(first: DType, second: DType) -> DType:
        found = promote(first, second)
        if found is None:
            raise DTypeError(f"{first} and {second} have no common dtype; convert one of them with xp.astype")
        return found

    result = reduce(common, dtypes)
    for number in numbers:
        if scalar_dtype(number, result) is None:
            raise DTypeError(f"{result} and the Python {type(number).__name__} {number!r} have no common dtype")
    return result


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype, or that of an array, promotes to the other one."""
    return promote(_dtype(from_), _dtype(to)) is _dtype(to)


FUNCTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (finfo, iinfo, isdtype, result_type, can_cast)}
