"""The digamma and trigamma functions where the lineage's are inexact, or Numba has none: Abramowitz and Stegun,
Handbook of Mathematical Functions, 6.3 and 6.4."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xbackend.program.program import Node

# In `Backend.added`. The C code is Bernardo's, AS 103 of 1976 (theano/scalar/basic_scipy.py, aesara/scalar/math.py).
IN_C = "digamma and its gradients, whose own in C are right to nine digits and of positive numbers only"
IN_NUMBA = "digamma and trigamma, which Aesara lacks in Numba"

# The coefficients of 6.3.18 and 6.4.12, for powers of the reciprocal square.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160, 43867 / 14364)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def digamma(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    return digamma_in_ops(T, inputs[0], T.round(inputs[0], mode="half_to_even"))


def digamma_in_ops(T: Any, x: Any, whole: Any) -> Any:
    """6.3.18 after 6.3.5 has added 8, so nine terms are enough; 6.3.7 below 1/2. ``T`` are ops of tensors or scalars,
    ``x`` a variable, ``whole`` the integer nearest to it, in its dtype."""

    def number(value: float) -> Any:
        return T.constant(value, dtype=x.dtype)

    below = T.lt(x, number(0.5))
    y = T.switch(below, T.sub(number(1.0), x), x)
    steps = sum((T.true_div(number(1.0), T.add(y, number(float(k)))) for k in range(1, 8)), T.true_div(number(1.0), y))
    y = T.add(y, number(8.0))
    inverse = T.true_div(number(1.0), T.mul(y, y))
    series = number(0.0)
    for term in reversed(_DIGAMMA):
        series = T.mul(inverse, T.add(number(term), series))
    above = T.log(y) - T.true_div(number(0.5), y) - series - steps
    # The angle within half a period of 0, where the tangent is exact.
    angle = T.mul(number(math.pi), T.sub(x, whole))
    reflected = T.sub(above, T.true_div(number(math.pi), T.tan(T.switch(below, angle, number(1.0)))))
    return T.switch(below, reflected, above)


def digamma_of(x: float) -> float:
    """Of one number, for Numba to compile."""
    y, steps = (1.0 - x if x < 0.5 else x), 0.0
    while y < 8.0:
        steps += 1.0 / y
        y += 1.0
    inverse, series = 1.0 / (y * y), 0.0
    for k in range(len(_DIGAMMA) - 1, -1, -1):
        series = inverse * (_DIGAMMA[k] + series)
    above = math.log(y) - 0.5 / y - series - steps
    return above - math.pi / math.tan(math.pi * (x - round(x))) if x < 0.5 else above


def trigamma_of(x: float) -> float:
    y, steps = (1.0 - x if x < 0.5 else x), 0.0
    while y < 8.0:
        steps += 1.0 / (y * y)
        y += 1.0
    inverse, series = 1.0 / (y * y), 0.0
    for k in range(len(_TRIGAMMA) - 1, -1, -1):
        series = inverse * (_TRIGAMMA[k] + series)
    above = 1.0 / y + 0.5 / (y * y) + series / y + steps
    return (math.pi / math.sin(math.pi * (x - round(x)))) ** 2 - above if x < 0.5 else above
