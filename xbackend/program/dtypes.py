"""The five dtypes and how they promote, as the Python Array API standard 2025.12 says.

https://data-apis.org/array-api/2025.12/API_specification/type_promotion.html
"""

from __future__ import annotations

import builtins
from enum import StrEnum
from typing import Any

from xbackend.errors import DTypeError


class DType(StrEnum):
    """A dtype of a program. Equal to its name, accepted by ``numpy.dtype``."""

    bool = "bool"
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
        return self is DType.float32 or self is DType.float64

    @property
    def is_integer(self) -> builtins.bool:
        return self is DType.int32 or self is DType.int64

    @property
    def is_numeric(self) -> builtins.bool:
        return self is not DType.bool


_ITEMSIZE = {DType.bool: 1, DType.int32: 4, DType.int64: 8, DType.float32: 4, DType.float64: 8}
_PYTHON = {bool: DType.bool, int: DType.int64, float: DType.float64}
NAMES = ", ".join(DType)


def as_dtype(value: Any, what: str = "dtype") -> DType:
    """The `DType` meant by a name, a NumPy dtype or scalar type, or Python's ``bool``, ``int``, ``float``.

    Raises `DTypeError` for all others, object and string dtypes among them.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
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
        return DType.int64
    if first.is_floating and second.is_floating:
        return DType.float64
    return None


def scalar_dtype(scalar: bool | int | float, other: DType) -> DType | None:
    """The dtype that a Python scalar takes beside an array of dtype ``other``, or `None` where that is undefined."""
    if isinstance(scalar, bool):
        return other if other is DType.bool else None
    if isinstance(scalar, int):
        return other if other.is_numeric else None
    return other if other.is_floating else None
