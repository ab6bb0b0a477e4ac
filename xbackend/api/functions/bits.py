"""Bitwise functions of integers and bool."""

from __future__ import annotations

from typing import Any

from xbackend.api.functions.elementwise import (
    floor_divide,
    greater,
    less,
    maximum,
    minimum,
    multiply,
    pow,
    subtract,
    where,
)
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import cast, operands
from xbackend.api.tracing.tracer import current
from xbackend.errors import DTypeError
from xbackend.program.dtypes import DType


def _binary(name: str, of_bool: str, x1: Any, x2: Any) -> Array:
    tracer = current(f"xb.{name}")
    pair = operands(name, tracer, x1, x2)
    return tracer.emit(of_bool if pair[0].dtype is DType.bool else name, pair, {})


def bitwise_and(x1: Any, x2: Any, /) -> Array:
    """The bits set in both, element by element; shapes broadcast. Integers, or bool."""
    return _binary("bitwise_and", "logical_and", x1, x2)


def bitwise_or(x1: Any, x2: Any, /) -> Array:
    """The bits set in at least one, element by element; shapes broadcast. Integers, or bool."""
    return _binary("bitwise_or", "logical_or", x1, x2)


def bitwise_xor(x1: Any, x2: Any, /) -> Array:
    """The bits set in exactly one, element by element; shapes broadcast. Integers, or bool."""
    return _binary("bitwise_xor", "logical_xor", x1, x2)


def bitwise_invert(x: Any, /) -> Array:
    """Every bit inverted, element by element: -x - 1 for signed integers, not for bool."""
    tracer = current("xb.bitwise_invert")
    array = tracer.array(x)
    return tracer.emit("logical_not" if array.dtype is DType.bool else "bitwise_invert", (array,), {})


def _integers(name: str, x1: Any, x2: Any) -> list[Array]:
    pair = operands(name, current(f"xb.{name}"), x1, x2)
    if not pair[0].dtype.is_integer:
        raise DTypeError(f"{name} takes integer arrays, not {pair[0].dtype}; convert with xb.astype")
    return pair


def bitwise_left_shift(x1: Any, x2: Any, /) -> Array:
    """The bits of x1 shifted up by x2 places (0 or more); high bits are lost. Shapes broadcast."""
    x, places = _integers("bitwise_left_shift", x1, x2)
    bits = 8 * x.dtype.itemsize
    # In two steps: 2 to the power of the highest bit's number does not fit into the dtype.
    half = minimum(maximum(places, 0), bits - 1)
    first = floor_divide(half, 2)
    rest = subtract(half, first)
    moved = multiply(multiply(x, pow(2, first)), pow(2, rest))
    return where(greater(places, bits - 1), 0, moved)


def bitwise_right_shift(x1: Any, x2: Any, /) -> Array:
    """The bits of x1 shifted down by x2 places (0 or more), the sign kept: x1 // 2**x2. Shapes broadcast."""
    x, places = _integers("bitwise_right_shift", x1, x2)
    last = 8 * x.dtype.itemsize - (1 if x.dtype.is_unsigned else 2)
    divided = floor_divide(x, pow(2, minimum(maximum(places, 0), last)))
    if x.dtype.is_unsigned:
        return where(greater(places, last), 0, divided)
    # The sign in the dtype of x: two numbers alone would be int64.
    return where(greater(places, last), cast(where(less(x, 0), -1, 0), x.dtype), divided)
