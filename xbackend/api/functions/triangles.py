"""Triangles and diagonals of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xbackend.api.functions.creation import arange
from xbackend.api.functions.elementwise import greater_equal, less_equal, where
from xbackend.api.functions.manipulation import reshape
from xbackend.api.functions.reductions import sum
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import integer
from xbackend.api.tracing.tracer import current
from xbackend.errors import ShapeError, TraceError
from xbackend.program.dtypes import DType


def _offset(name: str, k: Any) -> int:
    number = integer(k)
    if number is None:
        raise TraceError(f"{name} of the diagonal {k!r:.40}: it is an integer known while tracing")
    return number


def _triangle(name: str, kept: Callable[[Any, Any], Array], x: Any, k: int) -> Array:
    array, offset = current(f"xb.{name}").array(x), _offset(name, k)
    if array.ndim < 2:
        raise ShapeError(f"{name} takes matrices, not shape {array.shape}")
    rows, columns = (arange(n, dtype=DType.int64) for n in array.shape[-2:])
    zero = False if array.dtype is DType.bool else 0
    return where(kept(columns, reshape(rows + offset, (-1, 1) if rows.size else (0, 1))), array, zero)


def tril(x: Any, /, *, k: int = 0) -> Array:
    """Matrices with zeros above the k-th diagonal."""
    return _triangle("tril", less_equal, x, k)


def triu(x: Any, /, *, k: int = 0) -> Array:
    """Matrices with zeros below the k-th diagonal."""
    return _triangle("triu", greater_equal, x, k)


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonal of matrices, or the one ``offset`` places above (> 0) or below (< 0) it."""
    tracer = current("xb.linalg.diagonal")
    return tracer.emit("diagonal", (tracer.array(x),), {"offset": _offset("diagonal", offset)})


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of a `diagonal`. Integers give int64 unless ``dtype`` says otherwise."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)
