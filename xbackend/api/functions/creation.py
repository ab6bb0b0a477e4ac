"""Creation of arrays.

``device``, a device or a logical name, places the op; without it the scope does (`xbackend.device`).
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import Scalar, converted, given, integer, is_scalar
from xbackend.api.tracing.casting import shape as as_shape
from xbackend.api.tracing.scopes import on
from xbackend.api.tracing.tracer import current
from xbackend.errors import DTypeError, ShapeError
from xbackend.program.dtypes import DType, as_dtype


def asarray(value: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Array:
    """A constant of the program: numbers, nested lists, NumPy arrays. Python floats are float64, integers int64.

    A traced array is moved to the device; ``copy`` makes it a separate array. Raises `DTypeError` where ``copy=False``
    and the dtype changes.

    >>> backend.compile(lambda x: x + xb.asarray([1.0, 2.0]), np.ones(2))(np.ones(2))
    array([2., 3.])
    >>> xp.asarray([[1, 2], [3, 4]], dtype=xp.float32)
    array([[1., 2.],
           [3., 4.]], dtype=float32, device=cpu:0)
    """
    with on(device):
        array = given("asarray", value)
        kind = array.dtype if dtype is None else as_dtype(dtype)
        if copy is False and array.dtype is not kind:
            raise DTypeError(f"asarray of {array.dtype} as {kind} needs a copy, which copy=False refuses")
        return converted(array, kind, copy)


def full(shape: Any, fill_value: Scalar, *, dtype: Any = None, device: Any = None) -> Array:
    """An array filled with a number; without a dtype it is float64, int64 or bool, by the type of the number.

    >>> xp.full((2, 2), 7)
    array([[7, 7],
           [7, 7]], dtype=int64, device=cpu:0)
    """
    if not is_scalar(fill_value):
        raise DTypeError(f"full takes a Python number, not {fill_value!r:.60}; use xb.broadcast_to")
    kind = as_dtype(type(fill_value) if dtype is None else dtype)
    params = {"shape": as_shape(shape), "dtype": kind, "fill_value": _number(fill_value, kind)}
    with on(device):
        return current("xb.full").emit("full", (), params)


def _number(value: Scalar, dtype: DType) -> Scalar:
    """The number in the dtype. Raises `DTypeError` out of its range; for integers also for a fraction and NaN."""
    if dtype is DType.bool:
        return bool(value)
    try:
        number = float(value) if dtype.is_floating else int(value)
    except (OverflowError, ValueError):
        number = None
    if number is None or (dtype.is_integer and (number != value or not dtype.least <= number <= dtype.most)):
        raise DTypeError(f"{value!r:.60} is no {dtype}; convert the array with xb.astype")
    return number


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of zeros, float64 unless a dtype is given.

    >>> xp.zeros((2,), dtype=xp.int32)
    array([0, 0], dtype=int32, device=cpu:0)
    """
    return full(shape, 0.0, dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of ones, float64 unless a dtype is given.

    >>> xp.ones(3)
    array([1., 1., 1.], dtype=float64, device=cpu:0)
    """
    return full(shape, 1.0, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of unspecified elements (zeros), float64 unless a dtype is given.

    >>> xp.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Array:
    """An array of unspecified elements (zeros) with the shape, and unless given the dtype, of another.

    >>> xp.empty_like(xp.ones(3)).dtype
    <DType.float64: 'float64'>
    """
    return zeros_like(x, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Scalar, *, dtype: Any = None, device: Any = None) -> Array:
    """An array filled with a number, with the shape, and unless given the dtype, of another.

    >>> xp.full_like(xp.ones(2), 0.5)
    array([0.5, 0.5], dtype=float64, device=cpu:0)
    """
    array = given("full_like", x)
    return full(array.shape, fill_value, dtype=dtype or array.dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros with the shape, and unless given the dtype, of another array.

    >>> xp.zeros_like(xp.asarray([1, 2]))
    array([0, 0], dtype=int64, device=cpu:0)
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones with the shape, and unless given the dtype, of another array.

    >>> xp.ones_like(xp.asarray([5, 2]))
    array([1, 1], dtype=int64, device=cpu:0)
    """
    return full_like(x, 1, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Array:
    """A matrix with ones on its k-th diagonal and zeros elsewhere, float64 unless a dtype is given.

    >>> xp.eye(2, 3, k=1)
    array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float64, device=cpu:0)
    """
    shape = as_shape((n_rows, n_rows if n_cols is None else n_cols))
    kind = as_dtype(float if dtype is None else dtype)
    with on(device):
        return current("xb.eye").emit("eye", (), {"k": k, "shape": shape, "dtype": kind})


def arange(
    start: Scalar, /, stop: Scalar | None = None, step: Scalar = 1, *, dtype: Any = None, device: Any = None
) -> Array:
    """Evenly spaced numbers from ``start`` (or 0) up to ``stop``, exclusive.

    Raises `DTypeError` for numbers out of the dtype's range, `ShapeError` for an infinite length.

    >>> xp.arange(1, 7, 2)
    array([1, 3, 5], dtype=int64, device=cpu:0)
    """
    if stop is None:
        start, stop = 0, start
    numbers = (start, stop, step)
    if not builtins.all(is_scalar(n) and not isinstance(n, bool) for n in numbers):
        raise DTypeError(f"arange takes Python numbers, not {numbers!r:.80}")
    floating = builtins.any(isinstance(n, float) for n in numbers)
    kind = as_dtype(dtype if dtype is not None else (float if floating else int))
    if kind is DType.bool:
        raise DTypeError("arange of bool is undefined")
    length = _steps(start, stop, step)
    if length and kind.is_integer:
        _number(int(start), kind)
        _number(int(start + (length - 1) * step), kind)
    params = {"start": start, "step": step, "shape": (length,), "dtype": kind}
    with on(device):
        return current("xb.arange").emit("arange", (), params)


def _steps(start: Scalar, stop: Scalar, step: Scalar) -> int:
    """ceil((stop - start) / step), exact for integers. Raises `ShapeError`."""
    try:
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
            length = -((start - stop) // step)
        else:
            length = math.ceil((stop - start) / step)
    except (ZeroDivisionError, OverflowError, ValueError):
        raise ShapeError(f"arange({start}, {stop}, {step}) has no end") from None
    return length if length > 0 else 0


def linspace(
    start: Scalar, stop: Scalar, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Array:
    """``num`` evenly spaced numbers from ``start`` to ``stop`` (included unless ``endpoint`` is false).

    >>> xp.linspace(0.0, 1.0, 3)
    array([0. , 0.5, 1. ], dtype=float64, device=cpu:0)
    """
    if not (is_scalar(start) and is_scalar(stop)):
        raise DTypeError(f"linspace takes Python numbers, not {start!r:.40} and {stop!r:.40}")
    kind, length = as_dtype(float if dtype is None else dtype), integer(num)
    if length is None or length < 0:
        raise ShapeError(f"linspace of {num!r:.40} numbers: it is a non-negative integer")
    return asarray(np.linspace(start, stop, length, endpoint=endpoint, dtype=kind.value), device=device)
