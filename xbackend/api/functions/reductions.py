"""Reductions and cumulative sums and products."""

from __future__ import annotations

import builtins
import math
from math import prod as product
from typing import Any

from xbackend.api.functions.creation import full, zeros
from xbackend.api.functions.elementwise import divide, exp, isfinite, log, sqrt, square, where
from xbackend.api.functions.manipulation import concat, reshape, squeeze
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import cast, emitted, given, normalize_axes, normalize_axis, reshaped, truth
from xbackend.errors import ShapeError
from xbackend.program.dtypes import DType, as_dtype


def _keep(result: Array, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Array:
    if not keepdims or not axes:
        return result
    return reshape(result, tuple(1 if a in axes else n for a, n in enumerate(shape)))


def _reduce(name: str, array: Array, axis: Any, keepdims: bool) -> Array:
    axes = normalize_axes(axis, array.ndim)
    return _keep(emitted(name, array, axis=axes), array.shape, axes, keepdims)


def _accumulated(array: Array, dtype: Any) -> Array:
    """The array in the dtype of accumulation: the given one, else int64 for integers, else its own."""
    if dtype is None:
        dtype = DType.int64 if array.dtype.is_integer else array.dtype
    return cast(array, as_dtype(dtype))


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum over the axes (all if None), 0 for no elements; of integers int64 unless ``dtype`` says otherwise.

    >>> xp.sum(xp.asarray([[1, 0], [3, 4]]), axis=1)
    array([1, 7], dtype=int64, device=cpu:0)
    """
    return _reduce("sum", _accumulated(given("sum", x), dtype), axis, keepdims)


def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product over the axes (all if None), 1 for no elements; of integers int64 unless ``dtype`` says otherwise.

    >>> xp.prod(xp.asarray([[1, 0], [3, 4]]), axis=1)
    array([ 0, 12], dtype=int64, device=cpu:0)
    """
    return _reduce("prod", _accumulated(given("prod", x), dtype), axis, keepdims)


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The largest value over the axes (all if None), NaN if one is. Raises `ShapeError` over no elements.

    >>> xp.max(xp.asarray([[1, 0], [3, 4]]), axis=1)
    array([1, 4], dtype=int64, device=cpu:0)
    """
    return _reduce("max", given("max", x), axis, keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The smallest value over the axes (all if None), NaN if one is. Raises `ShapeError` over no elements.

    >>> xp.min(xp.asarray([[1, 0], [3, 4]]), axis=1)
    array([0, 3], dtype=int64, device=cpu:0)
    """
    return _reduce("min", given("min", x), axis, keepdims)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The arithmetic mean over the axes (all if None) of a floating-point array; NaN for no elements.

    >>> xp.mean(xp.asarray([[1.0, 2.0], [3.0, 5.0]]), axis=0, keepdims=True)
    array([[2. , 3.5]], dtype=float64, device=cpu:0)
    """
    return _reduce("mean", given("mean", x), axis, keepdims)


def var(x: Any, /, *, axis: Any = None, correction: int | float = 0.0, keepdims: bool = False) -> Array:
    """The variance over the axes (all if None): sum((x - mean)**2) / max(N - correction, 0).

    >>> float(xp.var(xp.asarray([1.0, 3.0]))), float(xp.var(xp.asarray([1.0, 3.0]), correction=1))
    (1.0, 2.0)
    """
    array = given("var", x)
    axes = normalize_axes(axis, array.ndim)
    n = product(array.shape[a] for a in axes)
    if n == 1:
        # The difference from the mean is x - x. Some backends make it 0 even for infinite x and NaN.
        deviation = array * where(isfinite(array), zeros((), dtype=array.dtype), math.nan)
    else:
        deviation = array - mean(array, axis=axes, keepdims=True)
    return divide(sum(square(deviation), axis=axes, keepdims=keepdims), float(builtins.max(n - correction, 0)))


def std(x: Any, /, *, axis: Any = None, correction: int | float = 0.0, keepdims: bool = False) -> Array:
    """The standard deviation over the axes (all if None): the square root of `var`.

    >>> float(xp.std(xp.asarray([1.0, 3.0])))
    1.0
    """
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def logsumexp(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """log(sum(exp(x))) over the axes (all if None) of floating-point numbers, without overflow; -inf for no elements.

    Where all are -inf, so is the result, and its gradient is 0.

    >>> round(float(xp.logsumexp(xp.asarray([1000.0, 1000.0]))), 3)
    1000.693
    """
    array = given("logsumexp", x)
    axes = normalize_axes(axis, array.ndim)
    if product(array.shape[a] for a in axes) == 0:
        return log(sum(exp(array), axis=axes, keepdims=keepdims))
    largest = max(array, axis=axes, keepdims=True)
    largest = where(isfinite(largest), largest, 0.0)
    total = sum(exp(array - largest), axis=axes, keepdims=True)
    impossible = total == 0.0  # the largest is 1, unless all are -inf
    result = where(impossible, -math.inf, log(where(impossible, 1.0, total)) + largest)
    return result if keepdims or not axes else squeeze(result, axis=axes)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether a value over the axes (all if None) is true, or not zero.

    >>> xp.any(xp.asarray([[1, 0], [3, 4]]), axis=1)
    array([ True,  True], dtype=bool, device=cpu:0)
    """
    return _reduce("any", truth(given("any", x)), axis, keepdims)


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether every value over the axes (all if None) is true, or not zero.

    >>> xp.all(xp.asarray([[1, 0], [3, 4]]), axis=1)
    array([False,  True], dtype=bool, device=cpu:0)
    """
    return _reduce("all", truth(given("all", x)), axis, keepdims)


def _arg(name: str, x: Any, axis: int | None, keepdims: bool) -> Array:
    array = given(name, x)
    shape, axes = array.shape, tuple(range(array.ndim))
    if axis is None:
        return _keep(emitted(name, reshaped(array, (array.size,)), axis=0), shape, axes, keepdims)
    number = normalize_axis(axis, array.ndim)
    return _keep(emitted(name, array, axis=number), shape, (number,), keepdims)


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position (int64) of the first largest value along the axis, or in the flattened array.

    >>> xp.argmax(xp.asarray([[1, 0], [3, 4]]), axis=1)
    array([0, 1], dtype=int64, device=cpu:0)
    """
    return _arg("argmax", x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position (int64) of the first smallest value along the axis, or in the flattened array.

    >>> xp.argmin(xp.asarray([[1, 0], [3, 4]]), axis=1)
    array([1, 0], dtype=int64, device=cpu:0)
    """
    return _arg("argmin", x, axis, keepdims)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """The cumulative sum along the axis, which only one-dimensional arrays may leave out.

    >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
    array([0, 1, 3, 6], dtype=int64, device=cpu:0)
    """
    return _cumulative("cumulative_sum", x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """The cumulative product along the axis, which only one-dimensional arrays may leave out.

    >>> xp.cumulative_prod(xp.asarray([1.0, 2.0, 3.0]))
    array([1., 2., 6.], dtype=float64, device=cpu:0)
    """
    return _cumulative("cumulative_prod", x, axis, dtype, 1 if include_initial else None)


def _cumulative(name: str, x: Any, axis: int | None, dtype: Any, initial: int | None) -> Array:
    array = _accumulated(given(name, x), dtype)
    if axis is None and array.ndim != 1:
        raise ShapeError(f"{name} of shape {array.shape} needs an axis")
    number = normalize_axis(0 if axis is None else axis, array.ndim)
    result = emitted(name, array, axis=number)
    if initial is not None:
        first = (*array.shape[:number], 1, *array.shape[number + 1 :])
        result = concat([full(first, initial, dtype=array.dtype), result], axis=number)
    return result
