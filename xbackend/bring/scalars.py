"""Functions of several frameworks, most of them elementwise, that `xbackend.api` lacks or has under other names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.program.dtypes import DType

Scalar = Callable[..., Any]


def named(names: str, spelled: Callable[[str], str] = str) -> dict[str, Scalar]:
    """Functions of `xbackend.api` by a framework's names."""
    return {spelled(name): getattr(xb, name) for name in names.split()}


def _kind(x: Any) -> str:
    """NumPy's character for the kind of an array's dtype."""
    return np.dtype(str(x.dtype)).kind


def quotient(x: Any, y: Any) -> Any:
    """The quotient rounded towards zero, as in C."""
    if _kind(x) == "f":
        return xb.trunc(xb.divide(x, y))
    down = xb.floor_divide(x, y)
    if _kind(x) == "u":
        return down
    inexact = xb.not_equal(xb.multiply(down, y), x)
    return xb.where(xb.logical_and(inexact, _opposite(x, y)), xb.add(down, 1), down)


def _opposite(x: Any, y: Any) -> Any:
    return xb.not_equal(xb.less(x, 0), xb.less(y, 0))


def remainder(x: Any, y: Any) -> Any:
    """The remainder with the sign of the dividend, as in C."""
    if _kind(x) == "u":
        return xb.remainder(x, y)
    if _kind(x) == "i":  # not by abs(), which overflows for the smallest integer
        rest = xb.remainder(x, y)
        return xb.where(xb.logical_and(xb.not_equal(rest, 0), _opposite(x, y)), xb.subtract(rest, y), rest)
    below = xb.less(x, 0)
    # Not abs(): its gradient at 0 is 0, and that of a remainder is 1.
    left = xb.remainder(xb.where(below, xb.negative(x), x), xb.where(xb.less(y, 0), xb.negative(y), y))
    return xb.where(below, xb.negative(left), left)


def half_away(x: Any) -> Any:
    """The nearest whole number, halves away from zero."""
    size = xb.abs(x)
    below = xb.floor(size)
    return xb.multiply(xb.sign(x), xb.where(xb.greater_equal(xb.subtract(size, below), 0.5), xb.add(below, 1.0), below))


def clip(x: Any, low: Any, high: Any) -> Any:
    """The number, or the bound that it exceeds."""
    return xb.where(xb.less(x, low), low, xb.where(xb.greater(x, high), high, x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return xb.logaddexp(x, 0.0)


def log_softmax(x: Any, axis: Any = -1) -> Any:
    """The logarithm of `softmax`."""
    moved = xb.subtract(x, xb.max(x, axis=axis, keepdims=True))
    return xb.subtract(moved, xb.log(xb.sum(xb.exp(moved), axis=axis, keepdims=True)))


def softmax(x: Any, axis: Any = -1) -> Any:
    """Exponentials divided by their sum along an axis; `None`: along all."""
    each = xb.exp(xb.subtract(x, xb.max(x, axis=axis, keepdims=True)))
    return xb.divide(each, xb.sum(each, axis=axis, keepdims=True))


# For `stopped`: the size from which all numbers are whole, a smaller size, and the scales for numbers below each. The
# product of both scales would overflow.
_BOUNDS = {
    DType.float32: (2.0**24, 2.0**-40, 2.0**64, 2.0**90),
    DType.float64: (2.0**53, 2.0**-400, 2.0**500, 2.0**600),
}


def stopped(x: Any) -> Any:
    """The same numbers with a gradient of 0: scaled to whole numbers by powers of two, truncated, whose gradient is 0,
    and scaled back."""
    if x.dtype not in _BOUNDS:
        return x
    whole, middle, first, second = _BOUNDS[x.dtype]

    def scale(bound: float, factor: float) -> Any:
        least, one, other = (np.asarray(n, x.dtype.value) for n in (bound, 1.0, factor))
        return xb.where(xb.greater_equal(xb.abs(x), least), one, other)

    by = scale(whole, first)
    found = xb.divide(xb.trunc(xb.multiply(xb.multiply(x, scale(middle, second)), by)), by)
    return xb.multiply(found, scale(middle, 1.0 / second))  # not divided: XLA would divide once, by the product
