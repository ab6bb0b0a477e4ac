"""Elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import cast, converted, copied, emitted, given, operands
from xbackend.api.tracing.tracer import current
from xbackend.errors import DTypeError
from xbackend.program.dtypes import DType, as_dtype


def _named(function: Callable[..., Array], name: str, doc: str) -> Callable[..., Array]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(
    name: str, doc: str, unchanged: Callable[[DType], bool] = lambda dtype: False, *, of_integers: bool | None = None
) -> Callable[[Any], Array]:
    """A function of one array. Arrays of ``unchanged`` dtypes are copied; ``of_integers``, if given, is the result for
    all integers."""

    def function(x: Any, /) -> Array:
        tracer = current(f"xb.{name}")
        array = tracer.array(x)
        if unchanged(array.dtype):
            return copied(array)
        if of_integers is not None and array.dtype.is_integer:
            return tracer.emit("full", (), {"shape": array.shape, "dtype": DType.bool, "fill_value": of_integers})
        return tracer.emit(name, (array,), {})

    return _named(function, name, f"{doc}, element by element.")


def _binary(name: str, doc: str, *, of_bool: str = "") -> Callable[[Any, Any], Array]:
    """A function of two arrays; ``of_bool`` names its op for bool, if that is another one."""

    def function(x1: Any, x2: Any, /) -> Array:
        pair = operands(name, x1, x2)
        op = of_bool if of_bool and pair[0].dtype is DType.bool else name
        return pair[0]._tracer.emit(op, pair, {})

    return _named(function, name, f"{doc}, element by element; shapes broadcast.")


abs = _unary("abs", "The absolute value", lambda dtype: dtype.is_unsigned)
negative = _unary("negative", "The number with its sign turned")
sign = _unary("sign", "-1, 0 or 1 (NaN for NaN)")
square = _unary("square", "The square")
floor = _unary("floor", "The largest integer not above", lambda dtype: dtype.is_integer)
ceil = _unary("ceil", "The smallest integer not below", lambda dtype: dtype.is_integer)
trunc = _unary("trunc", "The integer nearest to zero between", lambda dtype: dtype.is_integer)
round = _unary("round", "The nearest integer, halves to the even one", lambda dtype: dtype.is_integer)
exp = _unary("exp", "e to the power of the number")
expm1 = _unary("expm1", "exp(x) - 1, accurate near 0")
log = _unary("log", "The natural logarithm")
log1p = _unary("log1p", "log(1 + x), accurate near 0")
log2 = _unary("log2", "The logarithm to base 2")
log10 = _unary("log10", "The logarithm to base 10")
sqrt = _unary("sqrt", "The square root")
sin = _unary("sin", "The sine (radians)")
cos = _unary("cos", "The cosine (radians)")
tan = _unary("tan", "The tangent (radians)")
asin = _unary("asin", "The inverse sine (radians)")
acos = _unary("acos", "The inverse cosine (radians)")
atan = _unary("atan", "The inverse tangent (radians)")
sinh = _unary("sinh", "The hyperbolic sine")
cosh = _unary("cosh", "The hyperbolic cosine")
tanh = _unary("tanh", "The hyperbolic tangent")
asinh = _unary("asinh", "The inverse hyperbolic sine")
acosh = _unary("acosh", "The inverse hyperbolic cosine")
atanh = _unary("atanh", "The inverse hyperbolic tangent")
isnan = _unary("isnan", "Whether it is NaN (no integer is)", of_integers=False)
isinf = _unary("isinf", "Whether it is infinite (no integer is)", of_integers=False)
isfinite = _unary("isfinite", "Whether it is neither infinite nor NaN (every integer is)", of_integers=True)
logical_not = _unary("logical_not", "Not")
erf = _unary("erf", "The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x (floating point only)")
erfc = _unary("erfc", "1 - erf(x), accurate where that is near 0")
erfinv = _unary("erfinv", "The inverse of `erf`: infinite at -1 and 1, NaN beyond them")
gammaln = _unary("gammaln", "The natural logarithm of the absolute value of the gamma function (floating point only)")
digamma = _unary("digamma", "The derivative of `gammaln`, unspecified at its poles (0 and negative integers)")
expit = _unary("expit", "The logistic function, 1 / (1 + exp(-x)) (floating point only)")

add = _binary("add", "The sum")
subtract = _binary("subtract", "The difference")
multiply = _binary("multiply", "The product")
divide = _binary("divide", "The quotient (floating point only)")
floor_divide = _binary(
    "floor_divide",
    "The quotient rounded down (of integers by zero it is unspecified, of floats NumPy's with its zeros and "
    "infinities: docs/numbers.md)",
)
remainder = _binary("remainder", "The remainder of `floor_divide`, with the divisor's sign, which a zero has, too")
pow = _binary("pow", "The first to the power of the second (integers: negative exponents are unspecified)")
atan2 = _binary("atan2", "The angle of the point (x2, x1) (radians)")
maximum = _binary("maximum", "The larger one (NaN if one is)")
minimum = _binary("minimum", "The smaller one (NaN if one is)")
equal = _binary("equal", "Whether equal")
not_equal = _binary("not_equal", "Whether not equal")
less = _binary("less", "Whether less")
less_equal = _binary("less_equal", "Whether less or equal")
greater = _binary("greater", "Whether greater")
greater_equal = _binary("greater_equal", "Whether greater or equal")
logical_and = _binary("logical_and", "And")
logical_or = _binary("logical_or", "Or")
logical_xor = _binary("logical_xor", "Either, not both")
bitwise_and = _binary("bitwise_and", "The bits set in both (integers, or bool)", of_bool="logical_and")
bitwise_or = _binary("bitwise_or", "The bits set in at least one (integers, or bool)", of_bool="logical_or")
bitwise_xor = _binary("bitwise_xor", "The bits set in exactly one (integers, or bool)", of_bool="logical_xor")


def positive(x: Any, /) -> Array:
    """The same numbers."""
    return copied(given("positive", x))


def conj(x: Any, /) -> Array:
    """The complex conjugate: the same numbers, as all are real."""
    return _real("conj", x)


def real(x: Any, /) -> Array:
    """The real part: the same numbers, as all are real."""
    return _real("real", x)


def _real(name: str, x: Any) -> Array:
    array = given(name, x)
    if not array.dtype.is_numeric:
        raise DTypeError(f"{name} takes numeric arrays, not {array.dtype}; convert with xb.astype")
    return copied(array)


def reciprocal(x: Any, /) -> Array:
    """1 / x of a floating-point array, element by element."""
    return divide(1.0, given("reciprocal", x))


def signbit(x: Any, /) -> Array:
    """Whether the sign bit is set, as in -0.0; false for NaN, whatever its sign."""
    array = given("signbit", x)
    # A zero shows its sign in its reciprocal.
    zero = array == 0.0
    return less(where(zero, 1.0 / where(zero, array, 1.0), array), 0.0)


def copysign(x1: Any, x2: Any, /) -> Array:
    """The absolute value of x1 with the sign of x2 (`signbit`), element by element; shapes broadcast."""
    a, b = operands("copysign", x1, x2)
    return where(signbit(b), negative(abs(a)), abs(a))


def bitwise_invert(x: Any, /) -> Array:
    """Every bit inverted, element by element: -x - 1 for signed integers, not for bool."""
    array = given("bitwise_invert", x)
    return emitted("logical_not" if array.dtype is DType.bool else "bitwise_invert", array)


def _integers(name: str, x1: Any, x2: Any) -> list[Array]:
    pair = operands(name, x1, x2)
    if not pair[0].dtype.is_integer:
        raise DTypeError(f"{name} takes integer arrays, not {pair[0].dtype}; convert with xb.astype")
    return pair


def bitwise_left_shift(x1: Any, x2: Any, /) -> Array:
    """The bits of x1 shifted up by x2 places (0 or more); high bits are lost. Shapes broadcast."""
    x, places = _integers("bitwise_left_shift", x1, x2)
    bits = 8 * x.dtype.itemsize
    # In two steps: 2 to the power of the highest bit's number does not fit into the dtype.
    half = minimum(maximum(places, 0), bits - 1)
    first = half // 2
    rest = half - first
    moved = x * 2**first * 2**rest
    return where(places > bits - 1, 0, moved)


def bitwise_right_shift(x1: Any, x2: Any, /) -> Array:
    """The bits of x1 shifted down by x2 places (0 or more), the sign kept: x1 // 2**x2. Shapes broadcast."""
    x, places = _integers("bitwise_right_shift", x1, x2)
    last = 8 * x.dtype.itemsize - (1 if x.dtype.is_unsigned else 2)
    divided = x // 2 ** minimum(maximum(places, 0), last)
    beyond = places > last
    # The sign in the dtype of x: two numbers alone would be int64.
    return where(beyond, 0 if x.dtype.is_unsigned else cast(where(x < 0, -1, 0), x.dtype), divided)


def log1mexp(x: Any, /) -> Array:
    """log(1 - exp(x)) for x < 0, accurate near 0 and far from it.

    By expm1 above -log(2) and by log1p below (Maechler, Accurately computing ``log(1 - exp(-|a|))``, 2012).
    """
    array = given("log1mexp", x)
    near = array > -math.log(2.0)
    # Each branch gets only numbers of its own range: the unused branch then adds no NaN to the gradient.
    of_near, of_far = where(near, array, -1.0), where(near, -1.0, array)
    return where(near, log(-expm1(of_near)), log1p(-exp(of_far)))


def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(exp(x1) + exp(x2)) without overflow, element by element; shapes broadcast. Where both are -inf, so is the
    result, and its gradient is 0."""
    a, b = operands("logaddexp", x1, x2)
    same = (a == b) & isinf(a)
    difference = where(same, 0.0, b - a)
    above = difference > 0.0
    # Not abs(): where the two are equal, its gradient is 0, which is wrong here.
    result = where(above, b, a) + log1p(exp(where(above, -difference, difference)))
    return where(same & (a < 0.0), -math.inf, result)


def hypot(x1: Any, x2: Any, /) -> Array:
    """The square root of x1**2 + x2**2 without overflow, element by element; shapes broadcast."""
    a, b = map(abs, operands("hypot", x1, x2))
    # One condition chooses both: where the two are equal, their gradients must follow the same order.
    below = a < b
    larger, smaller = where(below, b, a), where(below, a, b)
    ratio = smaller / where(larger == 0.0, 1.0, larger)
    length = larger * sqrt(square(ratio) + 1.0)
    return where(isinf(a) | isinf(b), math.inf, length)


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """``x1`` where the bool ``condition`` holds, else ``x2``; shapes broadcast, dtypes of ``x1`` and ``x2`` promote.

    >>> xp.where(xp.asarray([True, False]), xp.asarray([1.0, 2.0]), 0.0)
    array([1., 0.], dtype=float64, device=cpu:0)
    """
    return emitted("where", given("where", condition), *operands("where", x1, x2))


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """The values limited to the range from ``min`` to ``max``; `None` sets no limit.

    >>> xp.clip(xp.asarray([-2.0, 0.5, 9.0]), 0.0, 1.0)
    array([0. , 0.5, 1. ], dtype=float64, device=cpu:0)
    """
    array = given("clip", x)
    if min is None and max is None:
        return copied(array)
    if min is not None:
        array = maximum(array, min)
    return minimum(array, max) if max is not None else array


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """The array in another dtype, and with ``device`` on another device; floating point to integer drops the fraction.
    With ``copy=False`` an array that has the dtype is returned as it is.

    >>> xp.astype(xp.asarray([-1.5, 2.5]), xp.int32)
    array([-1,  2], dtype=int32, device=cpu:0)
    """
    result = converted(given("astype", x), as_dtype(dtype), copy)
    return result if device is None else result.to_device(device)
