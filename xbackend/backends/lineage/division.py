"""Quotients, remainders, powers and signs in the Theano lineage: exact for integers, and NumPy's for floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from xbackend.backends.special_numbers import Elementwise, is_half
from xbackend.program.program import Node


def _number(T: Any, node: Node) -> Callable[[float], Any]:
    return partial(T.constant, dtype=node.dtype.value)


def _special(T: Any, node: Node) -> Elementwise:
    names = {"where": "switch", "equal": "eq", "less": "lt", "both": "and_", "either": "or_"}
    return Elementwise.of(T, _number(T, node), **names, is_infinite="isinf", multiply="mul", divide="true_div")


def _divisor(T: Any, node: Node, y: Any) -> Any:
    """A divisor of integers that does not trap: C ends by SIGFPE for ``x // 0`` and for the smallest integer divided by
    -1, Numba for the latter. The result by 0 is unspecified; callers handle -1."""
    number = _number(T, node)
    return T.switch(T.or_(T.eq(y, number(-1)), T.eq(y, number(0))), number(1), y)


def _near(T: Any, node: Node, x: Any, divisor: Any) -> tuple[Any, Any, Any]:
    """``x`` with the smallest integer moved up by abs(divisor), whether it was moved, and the divisor's sign: C code
    negates negative numbers to divide them (IntDiv, Mod: c_code), and that one has no negative."""
    number = _number(T, node)
    moved, up = T.eq(x, number(np.iinfo(node.dtype.value).min)), T.gt(divisor, number(0))
    near = T.switch(moved, T.switch(up, T.add(x, divisor), T.sub(x, divisor)), x)
    return near, moved, T.switch(up, number(1), number(-1))


def quotient(T: Any, node: Node, inputs: Sequence[Any], *, negates: bool = False) -> Any:
    """``negates``: the framework negates negative integers to divide them, see `_near`."""
    x, y = inputs
    if not node.dtype.is_integer:
        return floor_of_quotient(T, node, x, y)
    divide = T.floor_divide if hasattr(T, "floor_divide") else T.int_div
    divisor = _divisor(T, node, y)
    if negates:
        near, moved, sign = _near(T, node, x, divisor)
        result = divide(near, divisor)
        result = T.switch(moved, T.sub(result, sign), result)
    else:
        result = divide(x, divisor)
    return T.switch(T.eq(y, _number(T, node)(-1)), T.neg(x), result)


def remainder(T: Any, node: Node, inputs: Sequence[Any], *, negates: bool = False) -> Any:
    x, y = inputs
    if not node.dtype.is_integer:
        return _special(T, node).remainder(x, y, T.mod(x, y))
    divisor = _divisor(T, node, y)  # 1 in place of -1: the remainder is also 0
    return T.mod(_near(T, node, x, divisor)[0] if negates else x, divisor)


def floor_of_quotient(T: Any, node: Node, x: Any, y: Any, nearest: Callable[[Any], Any] | None = None) -> Any:
    """NumPy's floor(x / y) of floats: of the exact quotient, so 1 // 0.1 is 9. (x - remainder) / y is an integer up to
    rounding; ``nearest`` finds it."""
    # `quotient` also divides to get the sign of a zero, which must have no gradient.
    x, y = (import_module("..gradient", T.__name__).zero_grad(number) for number in (x, y))
    whole = T.true_div(T.sub(x, T.mod(x, y)), y)
    whole = T.round(whole, mode="half_to_even") if nearest is None else nearest(whole)
    return _special(T, node).quotient(x, y, whole)


def power_by_squaring(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Exact powers of integers, which C code and Numba compute in floating point, and Theano on the host. From the 64th
    power on only powers of 0, 1 and -1 fit into 64 bits, and depend on the exponent's parity alone."""
    if not node.dtype.is_integer:
        return power(T, node, inputs)
    base, exponent = inputs
    number = _number(T, node)
    exponent = T.switch(T.lt(exponent, number(0)), number(0), exponent)
    exponent = T.switch(T.gt(exponent, number(63)), T.add(number(62), T.and_(exponent, number(1))), exponent)
    result = number(1)
    for bit in range(6):
        result = T.switch(T.eq(T.and_(exponent, number(2**bit)), number(0)), result, T.mul(result, base))
        base = T.mul(base, base)
    return result


def power(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    x, y = inputs
    if node.dtype.is_integer:
        # The standard leaves negative powers of integers open; Numba raises.
        y = T.switch(T.lt(y, T.constant(0, dtype=y.dtype)), T.constant(0, dtype=y.dtype), y)
    elif is_half(_known(y)):
        x = _special(T, node).radicand(x)  # a rewrite makes it a square root (local_pow_specialize)
    return T.pow(x, y)


def sign(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """The sign, with 0.0 for -0.0; Numba and JAX keep -0.0."""
    found = (T.sign if hasattr(T, "sign") else T.sgn)(*inputs)
    return found if node.dtype.is_integer else _special(T, node).positive_zero(found)


def _known(variable: Any) -> np.ndarray | None:
    """The elements of a constant, or the number that fills an array; `None` for other variables."""
    if variable.owner is not None and type(variable.owner.op).__name__ == "Alloc":
        variable = variable.owner.inputs[0]
    return np.asarray(variable.data) if hasattr(variable, "data") else None
