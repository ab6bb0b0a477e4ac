"""Rows of quotients, remainders and powers: exact for integers, and NumPy's for floats (docs/numbers.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from xbackend.bring.onnx.elementwise import OnnxRow, is_negative
from xbackend.bring.onnx.graph import OnnxUse

_BITS = 6  # of an exponent: from the 64th on, powers of even numbers are 0, and of odd ones only those of 1 and -1 fit


def _remainder(use: OnnxUse) -> str:
    x, y = use.inputs
    if not use.is_floating:
        return use("Mod", x, _divisor(use), fmod=0)
    rest = use("Mod", x, y, fmod=1)  # with the sign of x
    rest = use("Where", _other_side(use, rest, y), use("Add", rest, y), rest)
    sign = use("Where", use("Less", y, use.number(0)), use.number(-1), use.number(1))
    return use("Mul", sign, use("Abs", rest))


def _other_side(use: OnnxUse, rest: str, y: str) -> str:
    """Whether a remainder is not 0, and its sign is not the divisor's."""
    zero = use.number(0)
    differ = use("Xor", use("Less", rest, zero), use("Less", y, zero))
    return use("And", differ, use("Not", use("Equal", rest, zero)))


def _floor_of_floats(use: OnnxUse) -> str:
    """The floor of the exact quotient, so 1 // 0.1 is 9, not 10, as NumPy's `npy_divmod` computes it."""
    x, y = use.inputs
    zero, one = use.number(0), use.number(1)
    quotient, rest = use("Div", x, y), use("Mod", x, y, fmod=1)
    whole = use("Div", use("Sub", x, rest), y)
    whole = use("Where", _other_side(use, rest, y), use("Sub", whole, one), whole)
    floor = use("Floor", whole)
    nearest = use("Where", use("Greater", use("Sub", whole, floor), use.number(0.5)), use("Add", floor, one), floor)
    sign = use("Where", is_negative(use, quotient), use.number(-1), one)
    return use("Where", use("Equal", y, zero), quotient, use("Mul", sign, use("Abs", nearest)))


def _floor_of_integers(use: OnnxUse) -> str:
    """A division without a remainder, for which it does not matter whether `Div` rounds down or to zero."""
    x, y = use.inputs
    divisor = _divisor(use)
    rest = use("Mod", x, divisor, fmod=1)  # with the sign of x
    whole = use("Div", use("Sub", x, rest), divisor)
    whole = use("Where", _other_side(use, rest, divisor), use("Sub", whole, use.number(1)), whole)
    return use("Where", use("Equal", y, use.number(-1)), use("Neg", x), whole) if divisor != y else whole


def _divisor(use: OnnxUse) -> str:
    """A divisor of integers that no processor traps at. It is 1 in place of 0, whose quotient is unspecified, and of
    -1, by which the smallest integer has no quotient. A known divisor without 0 and -1 stays."""
    y, known = use.inputs[1], use.known(1)
    if known is not None and not np.isin(known, (0, -1)).any():
        return y
    one = use.number(1)
    return use("Where", use("Or", use("Equal", y, use.number(-1)), use("Equal", y, use.number(0))), one, y)


def _power_of_floats(use: OnnxUse) -> str:
    x, y = use.inputs
    known = use.known(1)
    if known is not None and known.size and (known == 0.5).all():
        # A runtime may take the square root: it is -0 for -0, and NaN for -inf.
        endless = use("Equal", x, use.number(-math.inf))
        x = use("Where", endless, use.number(math.inf), use("Add", x, use.number(0)))
    return use("Pow", x, y)


def _power_of_integers(use: OnnxUse) -> str:
    """A power by squaring: `Pow` may compute in floating point. The power is unspecified for negative exponents, and
    for exponents over 63 that are not known, if the number is odd and its power does not fit."""
    base, exponent = use.inputs
    known = use.known(1)
    if known is not None and known.size and (known == known.flat[0]).all() and known.flat[0] > 0:
        return _by_known(use, base, int(known.flat[0]))
    zero, most = use.number(0), use.number(2**_BITS - 1)
    exponent = use("Where", use("Less", exponent, zero), zero, exponent)
    beyond = use("And", use("Greater", exponent, most), use("Equal", use("BitwiseAnd", base, use.number(1)), zero))
    base = use("Where", beyond, zero, base)
    parity = use("Add", use.number(2**_BITS - 2), use("BitwiseAnd", exponent, use.number(1)))
    exponent = use("Where", use("Greater", exponent, most), parity, exponent)
    result = use.number(1)
    for bit in range(_BITS):
        unset = use("Equal", use("BitwiseAnd", exponent, use.number(2**bit)), zero)
        result = use("Where", unset, result, use("Mul", result, base))
        base = use("Mul", base, base) if bit < _BITS - 1 else base
    return result


def _by_known(use: OnnxUse, base: str, exponent: int) -> str:
    """A power with a known exponent, expanded to the result's shape if the exponent has more axes."""
    result = ""
    while exponent:
        if exponent & 1:
            result = use("Mul", result, base) if result else base
        exponent >>= 1
        base = use("Mul", base, base) if exponent else base
    return result if use.x.shape == use.node.shape else use("Expand", result, use.ints(*use.node.shape))


ROWS: Mapping[str, OnnxRow] = {
    "floor_divide": lambda use: _floor_of_floats(use) if use.is_floating else _floor_of_integers(use),
    "remainder": _remainder,
    "pow": lambda use: _power_of_floats(use) if use.is_floating else _power_of_integers(use),
}
