"""Norms of vectors and of matrices."""

from __future__ import annotations

import math
from typing import Any

from xbackend.api.functions.elementwise import abs, not_equal, pow, sqrt, square
from xbackend.api.functions.manipulation import reshape
from xbackend.api.functions.reductions import max, min, sum
from xbackend.api.linalg.factorizations import svdvals
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import cast, is_scalar, normalize_axes
from xbackend.api.tracing.tracer import current
from xbackend.errors import ArgumentError, DTypeError, ShapeError


def _floats(name: str, x: Any) -> Array:
    array = current(f"xb.linalg.{name}").array(x)
    if not array.dtype.is_floating:
        raise DTypeError(f"{name} takes floating-point arrays, not {array.dtype}; convert with xb.astype")
    return array


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: int | float = 2) -> Array:
    """The p-norm of vectors along the axes (all if None): (sum(abs(x)**ord))**(1/ord).

    ``ord`` may be inf (the largest absolute value), -inf (the smallest), 0 (the number of nonzero elements).
    """
    array = _floats("vector_norm", x)
    if not is_scalar(ord):
        raise ArgumentError(f"xb.linalg.vector_norm of the order {ord!r:.40}: it is a number")
    over: dict[str, Any] = {"axis": normalize_axes(axis, array.ndim), "keepdims": keepdims}
    if ord == math.inf:
        return max(abs(array), **over)
    if ord == -math.inf:
        return min(abs(array), **over)
    if ord == 0:
        return sum(cast(not_equal(array, 0.0), array.dtype), **over)
    if ord == 1:
        return sum(abs(array), **over)
    if ord == 2:
        return sqrt(sum(square(array), **over))
    return pow(sum(pow(abs(array), float(ord)), **over), 1.0 / ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """A norm of matrices: ``"fro"`` the root of the sum of squares, ``"nuc"`` the sum of singular values, 1 and -1 the
    largest and smallest sum of a column, inf and -inf of a row, 2 and -2 the largest and smallest singular value."""
    array = _floats("matrix_norm", x)
    if array.ndim < 2:
        raise ShapeError(f"matrix_norm takes matrices, not shape {array.shape}")
    if ord == "fro":
        result = sqrt(sum(square(array), axis=(-2, -1)))
    elif ord == "nuc":
        result = sum(svdvals(array), axis=-1)
    elif ord in (2, -2):
        result = (max if ord == 2 else min)(svdvals(array), axis=-1)
    elif ord in (1, -1):
        result = (max if ord == 1 else min)(sum(abs(array), axis=-2), axis=-1)
    elif ord in (math.inf, -math.inf):
        result = (max if ord == math.inf else min)(sum(abs(array), axis=-1), axis=-1)
    else:
        raise ArgumentError(
            f"xb.linalg.matrix_norm of the order {ord!r:.40}: there is 'fro', 'nuc', 1, -1, 2, -2, inf and -inf"
        )
    return reshape(result, (*array.shape[:-2], 1, 1)) if keepdims else result
