"""Rows of elementwise primitives."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.bring import dtypes
from xbackend.bring.jax.walk import JaxprWalk, dtype_of, mapping, row
from xbackend.bring.scalars import half_away, named, quotient, remainder, stopped
from xbackend.errors import GraphError

mapping(
    {
        **named("exp expm1 log log1p log2 sqrt sin cos tan tanh"),
        "exp2": lambda x: xb.pow(2.0, x),
        "rsqrt": lambda x: xb.reciprocal(xb.sqrt(x)),
        "cbrt": lambda x: xb.multiply(xb.sign(x), xb.pow(xb.abs(x), 1.0 / 3.0)),
        "logistic": xb.expit,
    },
    attributes=("accuracy",),
)
mapping(
    {
        **named("asin acos atan sinh cosh asinh acosh atanh atan2 erf erfc digamma floor ceil sign"),
        **{"erf_inv": xb.erfinv, "lgamma": xb.gammaln, "is_finite": xb.isfinite},
        **{"eq": xb.equal, "ne": xb.not_equal},
        **{"and": xb.bitwise_and, "or": xb.bitwise_or, "xor": xb.bitwise_xor},
    }
)
mapping(
    {
        **named("abs add square"),
        **{"neg": xb.negative, "add_any": xb.add, "sub": xb.subtract, "not": xb.bitwise_invert},
        "one_minus_square": lambda x: xb.subtract(1.0, xb.square(x)),
    },
    wraps=True,
)


def as_result(equation: Any, values: list[Any]) -> list[Any]:
    """The operands in the dtype of the result."""
    dtype = dtype_of(equation.outvars[0])
    return [dtypes.cast(value, dtype_of(one), dtype) for value, one in zip(values, equation.invars, strict=True)]


row("mul", wraps=True, attributes=("out_dtype",))(lambda _, equation, values: xb.multiply(*as_result(equation, values)))
row("pow", wraps=True)(lambda _, equation, values: xb.pow(*as_result(equation, values)))


@row("div", "rem", wraps=True)
def divided(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """By 0, a quotient of integers has all bits set, and the remainder is the dividend."""
    is_quotient, dtype = equation.primitive.name == "div", np.dtype(dtype_of(equation.outvars[0]))
    made = quotient if is_quotient else remainder
    if dtype.kind == "f":
        return xb.divide(*values) if is_quotient else remainder(*values)
    x, y = values
    known = walk.known(equation.invars[1])
    if known is not None and known.all():
        return made(x, y)
    zero = xb.equal(y, 0)
    return xb.where(zero, dtypes.array(np.array(-1).astype(dtype)) if is_quotient else x, made(x, xb.where(zero, 1, y)))


@row("lt", "le", "gt", "ge")
def compared(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    names = {"lt": xb.less, "le": xb.less_equal, "gt": xb.greater, "ge": xb.greater_equal}
    return names[equation.primitive.name](*(ordered(one) for one in values))


def ordered(value: Any) -> Any:
    """The value, a bool as int32, as comparisons and sorts take no bools."""
    return xb.astype(value, dtypes.DType.int32) if str(value.dtype) == "bool" else value


@row("max", "min")
def extremum(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    return joining(equation.primitive.name, dtype_of(equation.outvars[0]))(*values)


def joining(name: str, dtype: str) -> Callable[..., Any]:
    """The function of two arrays that is ``max`` or ``min`` of a dtype."""
    if dtype == "bool":
        return xb.logical_or if name == "max" else xb.logical_and
    return xb.maximum if name == "max" else xb.minimum


@row("integer_pow", attributes=("y",), wraps=True)
def integer_power(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """By squaring, as XLA does."""
    x, exponent = values[0], int(equation.params["y"])
    if exponent == 0:
        return xb.ones_like(x)
    size, squares, result = abs(exponent), x, None
    while size:
        if size & 1:
            result = squares if result is None else xb.multiply(result, squares)
        size >>= 1
        squares = xb.square(squares) if size else squares
    return result if exponent > 0 else xb.reciprocal(result)


@row("polynomial", attributes=("unroll",), wraps=True)
def polynomial(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """By Horner's rule, as in JAX. The first coefficient is the constant term."""
    x, *coefficients = values
    return reduce(lambda total, one: xb.add(xb.multiply(total, x), one), reversed(coefficients))


row("round", attributes=("rounding_method",))(  # 1 is jax.lax.RoundingMethod.TO_NEAREST_EVEN
    lambda _, equation, values: (xb.round if int(equation.params["rounding_method"]) == 1 else half_away)(*values)
)


@row("select_n")
def select(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    which, *cases, result = values
    if dtype_of(equation.invars[0]) == "bool" and cases:
        return xb.where(which, result, *cases)
    for number, case in reversed([*enumerate(cases)]):
        result = xb.where(xb.less_equal(which, number), case, result)
    return result


@row("clamp")
def clamp(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """At a bound x has no gradient, as in JAX; the bound has it, which in JAX has none either. A bound that is NaN is
    the result."""
    low, x, high = values
    bounds = [walk.known(equation.invars[i]) for i in (0, 2)]
    are_known = all(one is not None for one in bounds)
    if not are_known or not (bounds[0] <= bounds[1]).all():  # type: ignore[operator]
        low = xb.minimum(low, high)  # NaN where either is
    found = xb.where(xb.greater_equal(x, high), high, xb.where(xb.less_equal(x, low), low, x))
    is_sure = are_known and not any(np.isnan(one).any() for one in bounds)  # type: ignore[arg-type]
    return found if is_sure or "float" not in dtype_of(equation.outvars[0]) else xb.where(xb.isnan(low), low, found)


@row("shift_left", "shift_right_arithmetic", "shift_right_logical", wraps=True)
def shifted(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """A shift by all bits or more, or below 0, leaves copies of the sign if it is arithmetic, else 0."""
    name, dtype, (x, by) = equation.primitive.name, dtype_of(equation.outvars[0]), values
    unsigned, signs, last = dtype.startswith("uint"), name == "shift_right_arithmetic", 8 * np.dtype(dtype).itemsize - 1
    if signs and unsigned:
        raise GraphError(f"{name} of {dtype} has no row: shift unsigned numbers without a sign")
    known, inside = walk.known(equation.invars[1]), None
    if known is None or (known < 0).any() or (known > last).any():
        inside = xb.logical_and(xb.greater_equal(by, 0), xb.less_equal(by, last))
        by = xb.where(inside, by, last if signs else 0)
    found = (xb.bitwise_left_shift if name == "shift_left" else xb.bitwise_right_shift)(x, by)
    if name == "shift_right_logical" and not unsigned:  # the copies of the sign are cleared
        copies = xb.bitwise_left_shift(xb.bitwise_left_shift(xb.full_like(x, -1), xb.subtract(last, by)), 1)
        found = xb.bitwise_and(found, xb.bitwise_invert(copies))
    return found if inside is None or signs else xb.where(inside, found, 0)


@row("convert_element_type", attributes=("new_dtype", "weak_type"))
def convert(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """A floating-point number beyond an integer dtype becomes its nearest bound; NaN becomes 0."""
    before, after = dtype_of(equation.invars[0]), dtype_of(equation.outvars[0])
    if "float" not in before or "int" not in after:
        return dtypes.cast(values[0], before, after)
    x, (low, high), kind = values[0], dtypes.whole_range(after), np.dtype(before).type
    is_exact = int(kind(high)) == high
    largest = kind(high) if is_exact else np.nextafter(kind(high), kind(0))  # the bound is rounded beyond the dtype
    inside = xb.clip(xb.where(xb.isnan(x), 0.0, x), float(low), float(largest))
    found = xb.astype(inside, dtypes.held(after))
    return found if is_exact else xb.where(xb.greater(x, float(largest)), high, found)


row("stop_gradient")(
    lambda walk, equation, values: values if walk.is_constant(equation.invars[0]) else stopped(*values)
)
