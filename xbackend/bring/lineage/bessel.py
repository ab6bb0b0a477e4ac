"""The modified Bessel function of the first kind, of known orders, written in the ops of programs."""

from __future__ import annotations

from math import lgamma
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType

_LARGEST = 100.0  # the largest order: the number of terms grows with its square
_TERMS = 30  # of the asymptotic series, whose terms fall below 1e-17 from the bound on


def ive(v: Any, x: Any) -> Any:
    """exp(-abs(x)) * I_v(x), with the modified Bessel function of the first kind I_v.

    Below a bound by the power series (Abramowitz and Stegun, 9.6.10), whose terms are all positive; beyond it by the
    asymptotic series (9.7.1). Orders are numbers from 0 to 100, or integers from -100. Raises `GraphError` for others,
    and for orders that depend on the inputs.
    """
    if isinstance(v, Array):
        raise GraphError("the order of a Bessel function depends on the inputs, and has to be a constant")
    given = np.asarray(v, np.float64)
    whole, order = given == np.floor(given), np.abs(given)  # I_n is I_-n
    if not (whole | (given >= 0)).all() or (order > _LARGEST).any():
        raise GraphError(f"Bessel functions of fractional orders below 0, and of orders over {_LARGEST:g}, have no row")
    bound = max(30.0, float(np.max(order, initial=0.0)) ** 2 / 2)
    wide = xb.astype(x, DType.float64)
    size = xb.where(xb.less(wide, 0.0), xb.negative(wide), wide)  # not abs(): the slope at 0 has to be 1
    small = xb.less(size, bound)  # false for NaN, which stays NaN in the asymptotic series
    near = xb.where(xb.logical_and(xb.greater(size, 0.0), small), size, 1.0)
    far = xb.where(small, bound, size)
    nonzero = xb.where(small, _series(order, near, bound), _asymptotic(order, far))
    zero = xb.add((order == 0).astype(np.float64), xb.multiply(np.where(order == 1, 0.5, 0.0), size))
    result = xb.where(xb.equal(size, 0.0), zero, nonzero)
    # NaN is a branch, not a factor: 0 times a factor NaN would be the gradient where the branch is not taken.
    turned = xb.multiply(np.where(whole, 1.0 - 2.0 * (order % 2), 1.0), result)
    turned = turned if whole.all() else xb.where(whole, turned, np.nan)
    return xb.astype(xb.where(xb.less(wide, 0.0), turned, result), x.dtype)


def _series(order: np.ndarray, x: Any, bound: float) -> Any:
    """The sum over k of exp(-x) (x / 2)**(v + 2k) / (k! gamma(v + k + 1)), for x below the bound. The largest terms are
    near k = x / 2."""
    k = np.arange(int(bound / 2 + 5 * bound**0.5 + 20), dtype=np.float64)
    factorials = np.vectorize(lgamma)(k + 1) + np.vectorize(lgamma)(order[..., None] + k + 1)
    each = xb.expand_dims(x, axis=-1)
    powers = xb.multiply(order[..., None] + 2 * k, xb.log(xb.multiply(0.5, each)))
    return xb.sum(xb.exp(xb.subtract(xb.subtract(powers, each), factorials)), axis=-1)


def _asymptotic(order: np.ndarray, x: Any) -> Any:
    """The sum of (-1)**k (4v**2 - 1) (4v**2 - 9) ... / (k! (8x)**k), divided by sqrt(2 pi x)."""
    j = np.arange(1.0, _TERMS)
    ratios = -(4 * order[..., None] ** 2 - (2 * j - 1) ** 2) / (8 * j)
    coefficients = np.concatenate([np.ones((*order.shape, 1)), np.cumprod(ratios, axis=-1)], axis=-1)
    powers = xb.pow(xb.reciprocal(xb.expand_dims(x, axis=-1)), np.arange(float(_TERMS)))
    return xb.divide(xb.sum(xb.multiply(coefficients, powers), axis=-1), xb.sqrt(xb.multiply(2 * np.pi, x)))
