"""Elementwise primitives."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.bring import dtypes
from xbackend.bring.jax.walk import Walk, dtype_of, mapping, row
from xbackend.errors import GraphError

# Of `stop_gradient`: numbers from the first bound are whole. There is a scale for these, for those from the second
# bound, and for others.
_BOUNDS = {"float32": (2.0**24, 2.0**-40), "float64": (2.0**53, 2.0**-400)}
_SCALES = {"float32": (1.0, 2.0**64, 2.0**126), "float64": (1.0, 2.0**500, 2.0**1000)}


def _rsqrt(x: Any) -> Any:
    return xb.reciprocal(xb.sqrt(x))


def _cbrt(x: Any) -> Any:
    return xb.multiply(xb.sign(x), xb.pow(xb.abs(x), 1.0 / 3.0))


mapping(
    {
        "exp": xb.exp,
        "exp2": lambda x: xb.pow(2.0, x),
        "expm1": xb.expm1,
        "log": xb.log,
        "log1p": xb.log1p,
        "log2": xb.log2,
        "sqrt": xb.sqrt,
        "rsqrt": _rsqrt,
        "cbrt": _cbrt,
        "sin": xb.sin,
        "cos": xb.cos,
        "tan": xb.tan,
        "tanh": xb.tanh,
        "logistic": xb.expit,
    },
    attributes=("accuracy",),
)
mapping(
    {
        "asin": xb.asin,
        "acos": xb.acos,
        "atan": xb.atan,
        "sinh": xb.sinh,
        "cosh": xb.cosh,
        "asinh": xb.asinh,
        "acosh": xb.acosh,
        "atanh": xb.atanh,
        "atan2": xb.atan2,
        "erf": xb.erf,
        "erfc": xb.erfc,
        "erf_inv": xb.erfinv,
        "lgamma": xb.gammaln,
        "digamma": xb.digamma,
        "floor": xb.floor,
        "ceil": xb.ceil,
        "sign": xb.sign,
        "is_finite": xb.isfinite,
        "eq": xb.equal,
        "ne": xb.not_equal,
        "and": xb.bitwise_and,
        "or": xb.bitwise_or,
        "xor": xb.bitwise_xor,
    }
)
mapping(
    {
        "neg": xb.negative,
        "abs": xb.abs,
        "add": xb.add,
        "add_any": xb.add,
        "sub": xb.subtract,
        "square": xb.square,
        "one_minus_square": lambda x: xb.subtract(1.0, xb.square(x)),
    },
    wraps=True,
)


@row("mul", wraps=True, attributes=("out_dtype",))
def multiply(walk: Walk, equation: Any, values: list[Any]) -> Any:
    dtype = dtype_of(equation.outvars[0])
    each = zip(values, equation.invars, strict=True)
    return xb.multiply(*(dtypes.cast(value, dtype_of(one), dtype) for value, one in each))


@row("not", wraps=True)
def invert(walk: Walk, equation: Any, values: list[Any]) -> Any:
    return xb.bitwise_invert(values[0])


@row("lt", "le", "gt", "ge")
def compared(walk: Walk, equation: Any, values: list[Any]) -> Any:
    names = {"lt": xb.less, "le": xb.less_equal, "gt": xb.greater, "ge": xb.greater_equal}
    return names[equation.primitive.name](*(ordered(one) for one in values))


def ordered(value: Any) -> Any:
    """A value that has an order: bool as int32."""
    return xb.astype(value, dtypes.DType.int32) if str(value.dtype) == "bool" else value


@row("max", "min")
def extremum(walk: Walk, equation: Any, values: list[Any]) -> Any:
    larger = equation.primitive.name == "max"
    if dtype_of(equation.outvars[0]) == "bool":
        return (xb.logical_or if larger else xb.logical_and)(*values)
    return (xb.maximum if larger else xb.minimum)(*values)


@row("div", wraps=True)
def divide(walk: Walk, equation: Any, values: list[Any]) -> Any:
    dtype = dtype_of(equation.outvars[0])
    if "float" in dtype:
        return xb.divide(*values)
    if dtype.startswith("uint"):
        return xb.floor_divide(*values)
    return _towards_zero(*values)


def _towards_zero(x: Any, y: Any) -> Any:
    down = xb.floor_divide(x, y)
    inexact = xb.not_equal(xb.multiply(down, y), x)
    opposite = xb.not_equal(xb.less(x, 0), xb.less(y, 0))
    return xb.where(xb.logical_and(inexact, opposite), xb.add(down, 1), down)


@row("rem", wraps=True)
def remainder(walk: Walk, equation: Any, values: list[Any]) -> Any:
    """The remainder with the sign of the first number, as of C."""
    x, y = values
    if dtype_of(equation.outvars[0]).startswith("uint"):
        return xb.remainder(x, y)
    below = xb.less(x, 0)
    # Not abs(): at 0 its gradient is 0, and that of a remainder is 1.
    left = xb.remainder(xb.where(below, xb.negative(x), x), xb.where(xb.less(y, 0), xb.negative(y), y))
    return xb.where(below, xb.negative(left), left)


@row("pow", wraps=True)
def power(walk: Walk, equation: Any, values: list[Any]) -> Any:
    dtype = dtype_of(equation.outvars[0])
    return xb.pow(values[0], dtypes.cast(values[1], dtype_of(equation.invars[1]), dtype))


@row("integer_pow", attributes=("y",), wraps=True)
def integer_power(walk: Walk, equation: Any, values: list[Any]) -> Any:
    """By squaring, as XLA does."""
    x, exponent = values[0], int(equation.params["y"])
    if exponent == 0:
        return xb.ones_like(x)
    size, squares, factors = abs(exponent), x, []
    while size:
        if size & 1:
            factors.append(squares)
        size >>= 1
        squares = xb.square(squares) if size else squares
    result = reduce(xb.multiply, factors)
    return result if exponent > 0 else xb.reciprocal(result)


@row("round", attributes=("rounding_method",))
def rounded(walk: Walk, equation: Any, values: list[Any]) -> Any:
    method = int(equation.params["rounding_method"])  # jax.lax.RoundingMethod
    if method == 1:
        return xb.round(values[0])
    x = values[0]
    size = xb.abs(x)
    below = xb.floor(size)
    up = xb.greater_equal(xb.subtract(size, below), 0.5)
    return xb.multiply(xb.sign(x), xb.where(up, xb.add(below, 1.0), below))


@row("select_n")
def select(walk: Walk, equation: Any, values: list[Any]) -> Any:
    which, *cases = values
    if len(cases) == 1:
        return cases[0]
    if dtype_of(equation.invars[0]) == "bool":
        return xb.where(which, cases[1], cases[0])
    result = cases[-1]
    for number in reversed(range(len(cases) - 1)):
        result = xb.where(xb.less_equal(which, number), cases[number], result)
    return result


@row("clamp")
def clamp(walk: Walk, equation: Any, values: list[Any]) -> Any:
    """A bound that is reached takes the gradient, as in JAX."""
    low, x, high = values
    if not (walk.is_constant(equation.invars[0]) and walk.is_constant(equation.invars[2])):
        low = xb.minimum(low, high)
    return xb.where(xb.greater_equal(x, high), high, xb.where(xb.less_equal(x, low), low, x))


@row("shift_left", "shift_right_arithmetic", "shift_right_logical", wraps=True)
def shifted(walk: Walk, equation: Any, values: list[Any]) -> Any:
    name, dtype = equation.primitive.name, dtype_of(equation.outvars[0])
    if name == "shift_left":
        return xb.bitwise_left_shift(*values)
    if (name == "shift_right_logical") != dtype.startswith("uint"):
        raise GraphError(f"{name} of {dtype} has no row: shift numbers with their sign, or unsigned ones without")
    return xb.bitwise_right_shift(*values)


@row("convert_element_type", attributes=("new_dtype", "weak_type"))
def convert(walk: Walk, equation: Any, values: list[Any]) -> Any:
    return dtypes.cast(values[0], dtype_of(equation.invars[0]), dtype_of(equation.outvars[0]))


@row("stop_gradient")
def stop_gradient(walk: Walk, equation: Any, values: list[Any]) -> Any:
    """The same numbers, without a gradient: scaled by a power of two so that they are whole, truncated, which has none,
    and scaled back."""
    x, dtype = values[0], dtype_of(equation.outvars[0])
    if dtype not in _BOUNDS or walk.is_constant(equation.invars[0]):
        return x
    (whole, middle), scales = _BOUNDS[dtype], [np.asarray(one, dtype) for one in _SCALES[dtype]]
    size = xb.abs(x)
    small = xb.where(xb.greater_equal(size, middle), scales[1], scales[2])
    by = xb.where(xb.greater_equal(size, whole), scales[0], small)
    return xb.divide(xb.trunc(xb.multiply(x, by)), by)
