"""Queries of dtypes: kinds, promotion, precision and range.

https://data-apis.org/array-api/2025.12/API_specification/data_type_functions.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xbackend.api.tracing.casting import common_dtype, is_scalar
from xbackend.errors import DTypeError
from xbackend.program.dtypes import DType, as_dtype, promote

_KINDS = {
    "bool": (DType.bool,),
    "signed integer": tuple(d for d in DType if d.is_integer and not d.is_unsigned),
    "unsigned integer": tuple(d for d in DType if d.is_unsigned),
    "integral": tuple(d for d in DType if d.is_integer),
    "real floating": tuple(d for d in DType if d.is_floating),
    "complex floating": (),
    "numeric": tuple(d for d in DType if d.is_numeric),
}


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """The precision and range of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """The range of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype(value: Any) -> DType:
    return as_dtype(value.dtype if hasattr(value, "dtype") and not isinstance(value, type) else value)


def finfo(type: Any, /) -> FloatInfo:
    """Precision and range of a floating-point dtype, or of an array's dtype. Raises `DTypeError`.

    >>> xp.finfo(xp.float32).eps
    1.1920928955078125e-07
    """
    dtype = _dtype(type)
    if not dtype.is_floating:
        raise DTypeError(f"finfo is of floating-point dtypes, not of {dtype}; use xb.iinfo")
    info = np.finfo(dtype.value)
    eps, largest, smallest, normal = (float(n) for n in (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(info.bits, eps, largest, smallest, normal, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """The range of an integer dtype, or of an array's dtype. Raises `DTypeError`.

    >>> xp.iinfo(xp.uint8).max
    255
    """
    dtype = _dtype(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo is of dtypes of integers, not of {dtype}; use xb.finfo")
    info = np.iinfo(dtype.value)
    return IntegerInfo(info.bits, int(info.max), int(info.min), dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, the standard's name of a kind, or a tuple of kinds.

    >>> xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.uint8, ("signed integer", "bool"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    own = as_dtype(dtype)
    if isinstance(kind, str) and not isinstance(kind, DType) and kind in _KINDS:
        return own in _KINDS[kind]
    return own is as_dtype(kind, "kind")


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that arrays, dtypes and Python numbers promote to. Raises `DTypeError` where the standard has none.

    >>> str(xp.result_type(xp.float32, xp.float64))
    'float64'
    """
    scalars = [v for v in arrays_and_dtypes if is_scalar(v)]
    known = [_dtype(v) for v in arrays_and_dtypes if not is_scalar(v)]
    if not known:
        raise DTypeError("result_type takes an array or a dtype at least, beside Python numbers")
    return common_dtype("result_type", known, scalars)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether an array or dtype promotes to the dtype.

    >>> xp.can_cast(xp.int32, xp.int64), xp.can_cast(xp.int64, xp.int32)
    (True, False)
    """
    target = as_dtype(to)
    return promote(_dtype(from_), target) is target
