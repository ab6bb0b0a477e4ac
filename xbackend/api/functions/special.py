"""Elementwise special functions, and sums of exponentials that do not overflow."""

from __future__ import annotations

import math
from typing import Any

from xbackend.api.functions.elementwise import (
    abs,
    add,
    divide,
    equal,
    exp,
    expm1,
    greater,
    isfinite,
    isinf,
    less,
    log,
    log1p,
    logical_and,
    logical_or,
    multiply,
    negative,
    sqrt,
    square,
    subtract,
    where,
)
from xbackend.api.functions.manipulation import squeeze
from xbackend.api.functions.reductions import max, sum
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import normalize_axes, operands
from xbackend.api.tracing.tracer import current


def _unary(name: str, x: Any) -> Array:
    tracer = current(f"xb.{name}")
    return tracer.emit(name, (tracer.array(x),), {})


def erf(x: Any, /) -> Array:
    """The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x, of a floating-point array."""
    return _unary("erf", x)


def erfc(x: Any, /) -> Array:
    """1 - erf(x), accurate where that is near 0."""
    return _unary("erfc", x)


def erfinv(x: Any, /) -> Array:
    """The inverse of `erf`: infinite at -1 and 1, NaN beyond them."""
    return _unary("erfinv", x)


def gammaln(x: Any, /) -> Array:
    """The natural logarithm of the absolute value of the gamma function of a floating-point array."""
    return _unary("gammaln", x)


def digamma(x: Any, /) -> Array:
    """The derivative of `gammaln`, unspecified at its poles (0 and negative integers)."""
    return _unary("digamma", x)


def expit(x: Any, /) -> Array:
    """The logistic function, 1 / (1 + exp(-x)), of a floating-point array."""
    return _unary("expit", x)


def log1mexp(x: Any, /) -> Array:
    """log(1 - exp(x)) for x < 0, accurate near 0 and far from it.

    By expm1 above -log(2) and by log1p below (Maechler, Accurately computing log(1 - exp(-|a|)), 2012).
    """
    array = current("xb.log1mexp").array(x)
    near = greater(array, -math.log(2.0))
    # Each branch gets only numbers of its own range: the unused branch then adds no NaN to the gradient.
    of_near, of_far = where(near, array, -1.0), where(near, -1.0, array)
    return where(near, log(negative(expm1(of_near))), log1p(negative(exp(of_far))))


def logsumexp(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """log(sum(exp(x))) over the axes (all if None) of floating-point numbers, without overflow; -inf for no elements.

    Where all are -inf, so is the result, and its gradient is 0.
    """
    array = current("xb.logsumexp").array(x)
    axes = normalize_axes(axis, array.ndim)
    if math.prod(array.shape[a] for a in axes) == 0:
        return log(sum(exp(array), axis=axes, keepdims=keepdims))
    largest = max(array, axis=axes, keepdims=True)
    largest = where(isfinite(largest), largest, 0.0)
    total = sum(exp(subtract(array, largest)), axis=axes, keepdims=True)
    impossible = equal(total, 0.0)  # the largest is 1, unless all are -inf
    result = where(impossible, -math.inf, add(log(where(impossible, 1.0, total)), largest))
    return result if keepdims or not axes else squeeze(result, axis=axes)


def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(exp(x1) + exp(x2)) without overflow, element by element; shapes broadcast. Where both are -inf, so is the
    result, and its gradient is 0."""
    a, b = operands("logaddexp", current("xb.logaddexp"), x1, x2)
    same = logical_and(equal(a, b), isinf(a))
    difference = where(same, 0.0, subtract(b, a))
    above = greater(difference, 0.0)
    # Not abs(): where the two are equal, its gradient is 0, which is wrong here.
    result = add(where(above, b, a), log1p(exp(where(above, negative(difference), difference))))
    return where(logical_and(same, less(a, 0.0)), -math.inf, result)


def hypot(x1: Any, x2: Any, /) -> Array:
    """The square root of x1**2 + x2**2 without overflow, element by element; shapes broadcast."""
    a, b = (abs(x) for x in operands("hypot", current("xb.hypot"), x1, x2))
    # One condition chooses both: where the two are equal, their gradients must follow the same order.
    below = less(a, b)
    larger, smaller = where(below, b, a), where(below, a, b)
    ratio = divide(smaller, where(equal(larger, 0.0), 1.0, larger))
    length = multiply(larger, sqrt(add(square(ratio), 1.0)))
    return where(logical_or(isinf(a), isinf(b)), math.inf, length)


def reciprocal(x: Any, /) -> Array:
    """1 / x of a floating-point array, element by element."""
    return divide(1.0, current("xb.reciprocal").array(x))
