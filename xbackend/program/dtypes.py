"""The dtypes and how they promote, as the Python Array API standard 2025.12 says.

https://data-apis.org/array-api/2025.12/API_specification/type_promotion.html
"""

from __future__ import annotations

import builtins
from enum import StrEnum
from typing import Any

import numpy as np

from xbackend.errors import DTypeError


class DType(StrEnum):
    """A dtype of a program. Equal to its name, accepted by ``numpy.dtype``.

    >>> xb.float32 == "float32", np.dtype(xb.float32), xb.float32.itemsize, xb.float32.is_floating
    (True, dtype('float32'), 4, True)
    >>> xb.uint8.is_integer, xb.uint8.is_unsigned, xb.uint8.is_numeric, xb.uint8.least, xb.uint8.most, xb.uint8.wider
    (True, True, True, 0, 255, <DType.int32: 'int32'>)
    """

    bool = "bool"
    uint8 = "uint8"
    uint32 = "uint32"
    int32 = "int32"
    int64 = "int64"
    float32 = "float32"
    float64 = "float64"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]

    @property
    def is_floating(self) -> builtins.bool:
        """Whether it is float32 or float64."""
        return self is DType.float32 or self is DType.float64

    @property
    def is_integer(self) -> builtins.bool:
        """Whether it is a dtype of integers, signed or unsigned."""
        return self in _INTEGERS

    @property
    def is_unsigned(self) -> builtins.bool:
        """Whether it is uint8 or uint32."""
        return self in _WIDER

    @property
    def least(self) -> int:
        """The smallest number of a dtype of integers."""
        return 0 if self.is_unsigned else -(2 ** (8 * self.itemsize - 1))

    @property
    def most(self) -> int:
        """The largest number of a dtype of integers."""
        return int(2 ** (8 * self.itemsize - (not self.is_unsigned)) - 1)

    @property
    def wider(self) -> DType:
        """The signed dtype that holds all numbers of an unsigned one; other dtypes stay."""
        return _WIDER.get(self, self)

    @property
    def is_numeric(self) -> builtins.bool:
        """Whether it is not bool."""
        return self is not DType.bool


_ITEMSIZE = {dtype: np.dtype(dtype.value).itemsize for dtype in DType}
_WIDER = {DType.uint8: DType.int32, DType.uint32: DType.int64}
_INTEGERS = frozenset({*_WIDER, *_WIDER.values()})
_PYTHON = {bool: DType.bool, int: DType.int64, float: DType.float64}
_NUMPY = {np.dtype(dtype.value): dtype for dtype in DType}  # NumPy takes a microsecond for a name
NAMES = ", ".join(DType)


def as_dtype(value: Any, what: str = "dtype") -> DType:
    """The `DType` of a name, a NumPy dtype or scalar type, or Python's ``bool``, ``int``, ``float``.

    Raises `DTypeError` for all others, such as object and string dtypes.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    if isinstance(value, np.dtype) and value in _NUMPY:
        return _NUMPY[value]
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None)
    text = {"bool_": "bool"}.get(name, name) if isinstance(name, str) else ""
    try:
        return DType(text)
    except ValueError:
        raise DTypeError(f"{what} {value!s} is not supported; the dtypes are {NAMES}") from None


def promote(first: DType, second: DType) -> DType | None:
    """The common dtype of two array dtypes, or `None` where the standard leaves it undefined."""
    if first is second:
        return first
    if first.is_integer and second.is_integer:
        if first.is_unsigned and second.is_unsigned:
            return DType.uint32
        return DType.int32 if {first.wider, second.wider} == {DType.int32} else DType.int64
    if first.is_floating and second.is_floating:
        return DType.float64
    return None


def scalar_dtype(scalar: bool | int | float, other: DType) -> DType | None:
    """The dtype of a Python scalar in an operation with an array of dtype ``other``; `None` where it is undefined."""
    if isinstance(scalar, bool):
        return other if other is DType.bool else None
    if isinstance(scalar, int):
        return other if other.is_numeric else None
    return other if other.is_floating else None
