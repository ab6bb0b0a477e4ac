"""Elementwise functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import converted, copied, operands
from xbackend.api.tracing.tracer import current
from xbackend.errors import DTypeError
from xbackend.program.dtypes import DType, as_dtype


def _is_integer(dtype: DType) -> bool:
    return dtype.is_integer


def _named(function: Callable[..., Array], name: str, doc: str) -> Callable[..., Array]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(name: str, doc: str, unchanged: Callable[[DType], bool] = lambda dtype: False) -> Callable[[Any], Array]:
    def function(x: Any, /) -> Array:
        tracer = current(f"xb.{name}")
        array = tracer.array(x)
        if unchanged(array.dtype):
            return copied(array)
        return tracer.emit(name, (array,), {})

    return _named(function, name, f"{doc}, element by element.")


def _classification(name: str, doc: str, of_integers: bool) -> Callable[[Any], Array]:
    def function(x: Any, /) -> Array:
        tracer = current(f"xb.{name}")
        array = tracer.array(x)
        if array.dtype.is_integer:
            params = {"shape": array.shape, "dtype": DType.bool, "fill_value": of_integers}
            return tracer.emit("full", (), params)
        return tracer.emit(name, (array,), {})

    return _named(function, name, f"{doc}, element by element.")


def _binary(name: str, doc: str) -> Callable[[Any, Any], Array]:
    def function(x1: Any, x2: Any, /) -> Array:
        tracer = current(f"xb.{name}")
        return tracer.emit(name, operands(name, tracer, x1, x2), {})

    return _named(function, name, f"{doc}, element by element; shapes broadcast.")


abs = _unary("abs", "The absolute value", lambda dtype: dtype.is_unsigned)
negative = _unary("negative", "The number with its sign turned")
sign = _unary("sign", "-1, 0 or 1 (NaN for NaN)")
square = _unary("square", "The square")
floor = _unary("floor", "The largest integer not above", _is_integer)
ceil = _unary("ceil", "The smallest integer not below", _is_integer)
trunc = _unary("trunc", "The integer nearest to zero between", _is_integer)
round = _unary("round", "The nearest integer, halves to the even one", _is_integer)
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
isnan = _classification("isnan", "Whether it is NaN (no integer is)", of_integers=False)
isinf = _classification("isinf", "Whether it is infinite (no integer is)", of_integers=False)
isfinite = _classification("isfinite", "Whether it is neither infinite nor NaN (every integer is)", of_integers=True)
logical_not = _unary("logical_not", "Not")

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


def positive(x: Any, /) -> Array:
    """The same numbers."""
    return copied(current("xb.positive").array(x))


def conj(x: Any, /) -> Array:
    """The complex conjugate: the same numbers, as all are real."""
    return _real("conj", x)


def real(x: Any, /) -> Array:
    """The real part: the same numbers, as all are real."""
    return _real("real", x)


def _real(name: str, x: Any) -> Array:
    array = current(f"xb.{name}").array(x)
    if not array.dtype.is_numeric:
        raise DTypeError(f"{name} takes numeric arrays, not {array.dtype}; convert with xb.astype")
    return copied(array)


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """``x1`` where the bool ``condition`` holds, else ``x2``; shapes broadcast, dtypes of ``x1`` and ``x2`` promote."""
    tracer = current("xb.where")
    return tracer.emit("where", (tracer.array(condition), *operands("where", tracer, x1, x2)), {})


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """The values limited to the range from ``min`` to ``max``; `None` sets no limit."""
    array = current("xb.clip").array(x)
    if min is None and max is None:
        return copied(array)
    if min is not None:
        array = maximum(array, min)
    return minimum(array, max) if max is not None else array


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """The array in another dtype, and with ``device`` on another device; floating point to integer drops the fraction.
    With ``copy=False`` an array that has the dtype is returned as it is."""
    result = converted(current("xb.astype").array(x), as_dtype(dtype), copy)
    return result if device is None else result.to_device(device)
