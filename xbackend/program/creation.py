"""Arrays made of nothing."""

from __future__ import annotations

from typing import Any

from xbackend.errors import DTypeError, ShapeError
from xbackend.program.array import Array
from xbackend.program.casting import Scalar, cast, is_scalar
from xbackend.program.casting import shape as as_shape
from xbackend.program.dtypes import DType, as_dtype
from xbackend.program.tracing import current


def asarray(value: Any, /, *, dtype: Any = None) -> Array:
    """A constant of the program: numbers, nested lists, NumPy arrays. Python floats are float64, integers int64."""
    array = current("xb.asarray").array(value)
    return array if dtype is None else cast(array, as_dtype(dtype))


def full(shape: Any, fill_value: Scalar, *, dtype: Any = None) -> Array:
    """An array filled with a number; without a dtype it is float64, int64 or bool, as the number is."""
    if not is_scalar(fill_value):
        raise DTypeError(f"full takes a Python number, not {fill_value!r:.60}; use xb.broadcast_to")
    kind = as_dtype(type(fill_value) if dtype is None else dtype)
    value = {"bool": bool, "int32": int, "int64": int}.get(kind.value, float)(fill_value)
    params = {"shape": as_shape(shape), "dtype": kind, "fill_value": value}
    return current("xb.full").emit("full", (), params)


def zeros(shape: Any, *, dtype: Any = DType.float64) -> Array:
    """An array of zeros."""
    return full(shape, 0, dtype=dtype)


def ones(shape: Any, *, dtype: Any = DType.float64) -> Array:
    """An array of ones."""
    return full(shape, 1, dtype=dtype)


def full_like(x: Any, /, fill_value: Scalar, *, dtype: Any = None) -> Array:
    """An array of the shape, and unless given the dtype, of another, filled with a number."""
    array = current("xb.full_like").array(x)
    return full(array.shape, fill_value, dtype=dtype or array.dtype)


def zeros_like(x: Any, /, *, dtype: Any = None) -> Array:
    """Zeros in the shape, and unless given the dtype, of another array."""
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Any, /, *, dtype: Any = None) -> Array:
    """Ones in the shape, and unless given the dtype, of another array."""
    return full_like(x, 1, dtype=dtype)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = DType.float64) -> Array:
    """A matrix with ones on its k-th diagonal and zeros elsewhere."""
    shape = as_shape((n_rows, n_rows if n_cols is None else n_cols))
    return current("xb.eye").emit("eye", (), {"k": k, "shape": shape, "dtype": as_dtype(dtype)})


def arange(start: Scalar, /, stop: Scalar | None = None, step: Scalar = 1, *, dtype: Any = None) -> Array:
    """Evenly spaced numbers from ``start`` (or 0) up to ``stop``, which is not reached."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ShapeError("arange with a step of 0 never ends")
    numbers = (start, stop, step)
    floating = [n for n in numbers if isinstance(n, float)]
    kind = as_dtype(dtype if dtype is not None else (float if floating else int))
    # ceil((stop - start) / step) without the loss of a floating-point division for integers
    distance = -((start - stop) // step)
    params = {"start": start, "step": step, "shape": (int(distance) if distance > 0 else 0,), "dtype": kind}
    return current("xb.arange").emit("arange", (), params)


def linspace(start: Scalar, stop: Scalar, /, num: int, *, dtype: Any = DType.float64, endpoint: bool = True) -> Array:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, which is one of them unless ``endpoint`` is false."""
    import numpy as np

    kind, (length,) = as_dtype(dtype), as_shape(num)
    return asarray(np.linspace(start, stop, length, endpoint=endpoint, dtype=kind.value))
