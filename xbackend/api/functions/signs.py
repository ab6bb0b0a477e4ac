"""Signs of floating-point numbers, including zeros."""

from __future__ import annotations

from typing import Any

from xbackend.api.functions.elementwise import abs, divide, equal, less, negative, where
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import operands
from xbackend.api.tracing.tracer import current


def signbit(x: Any, /) -> Array:
    """Whether the sign bit is set, as in -0.0; false for NaN, whatever its sign."""
    array = current("xb.signbit").array(x)
    # A zero shows its sign in its reciprocal.
    zero = equal(array, 0.0)
    return less(where(zero, divide(1.0, where(zero, array, 1.0)), array), 0.0)


def copysign(x1: Any, x2: Any, /) -> Array:
    """The absolute value of x1 with the sign of x2 (`signbit`), element by element; shapes broadcast."""
    a, b = operands("copysign", current("xb.copysign"), x1, x2)
    return where(signbit(b), negative(abs(a)), abs(a))
