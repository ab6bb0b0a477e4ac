"""Rows of elementwise ops. If ONNX's standard leaves NaN, infinities or signs of zeros open, a row gives NumPy's.

ONNX Runtime's `Where` loses the sign of -0 in its second operand. So a number that may be -0 is the third operand, or
gets its sign by a product: https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/tensor/where_op.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xbackend.bring.onnx.graph import OnnxUse
from xbackend.program.dtypes import DType

OnnxRow = Callable[[OnnxUse], str | Sequence[str]]


def operator(name: str) -> OnnxRow:
    return lambda use: use(name, *use.inputs)


def _where(use: OnnxUse) -> str:
    """Of booleans by logic, as ONNX Runtime has no `Where` for them."""
    condition, x, y = use.inputs
    if use.node.dtype is not DType.bool:
        return use("Where", condition, x, y)
    return use("Or", use("And", condition, x), use("And", use("Not", condition), y))


def _sign(use: OnnxUse) -> str:
    """The sign of NaN is NaN, which the standard leaves open."""
    (x,) = use.inputs
    sign = use("Sign", x)
    return use("Where", use("IsNaN", x), x, sign) if use.is_floating else sign


def _trunc(use: OnnxUse) -> str:
    (x,) = use.inputs
    return use("Where", use("Greater", x, use.number(0)), use("Floor", x), use("Ceil", x))


def _isfinite(use: OnnxUse) -> str:
    (x,) = use.inputs
    return use("Not", use("Or", use("IsNaN", x), use("IsInf", x)))


def _extreme(use: OnnxUse) -> str:
    """`maximum` and `minimum`: NaN if an operand is, which the standard leaves open."""
    x, y = use.inputs
    found = use("Max" if use.node.op == "maximum" else "Min", x, y)
    if not use.is_floating:
        return found
    return use("Where", use("IsNaN", x), x, use("Where", use("IsNaN", y), y, found))


def _logarithm(use: OnnxUse) -> str:
    """The quotient of natural logarithms. Of a power of the base it is rounded, as it may not be whole."""
    (x,), base = use.inputs, 2 if use.node.op == "log2" else 10
    found = use("Div", use("Log", x), use.number(math.log(base)))
    whole = use("Round", found)
    return use("Where", use("Equal", use("Pow", use.number(base), whole), x), whole, found)


def _expm1(use: OnnxUse) -> str:
    """x (u - 1) / log(u) with u = exp(x), in which the rounding of u cancels: Higham, Accuracy and Stability of
    Numerical Algorithms, section 1.14.1."""
    (x,) = use.inputs
    one, u = use.number(1), use("Exp", x)
    less = use("Sub", u, one)
    ratio = use("Where", use("Equal", u, one), one, use("Div", less, use("Log", u)))
    ratio = use("Where", use("Equal", u, use.number(math.inf)), u, ratio)
    return use("Where", use("Equal", less, use.number(-1)), less, use("Mul", x, ratio))


def _log1p(use: OnnxUse) -> str:
    """x log(u) / (u - 1) with u = 1 + x, as in `_expm1`."""
    (x,) = use.inputs
    one = use.number(1)
    u = use("Add", x, one)
    ratio = use("Div", use("Log", u), use("Sub", u, one))
    is_itself = use("Or", use("Equal", u, one), use("Equal", u, use.number(math.inf)))
    return use("Mul", x, use("Where", is_itself, one, ratio))


def _atan2(use: OnnxUse) -> str:
    """The angle of the absolute values, moved to the quadrant of the signs."""
    y, x = use.inputs
    zero, one = use.number(0), use.number(1)
    rise, run = use("Abs", y), use("Abs", x)
    slope = use("Where", use("Equal", rise, run), one, use("Div", rise, run))  # also of two infinities
    slope = use("Where", use("And", use("Equal", y, zero), use("Equal", x, x)), zero, slope)
    angle = use("Atan", slope)
    angle = use("Where", is_negative(use, x), use("Sub", use.number(math.pi), angle), angle)
    return use("Mul", use("Where", is_negative(use, y), use.number(-1), one), angle)


def is_negative(use: OnnxUse, x: str) -> str:
    """Whether a number is negative, or -0, which has a negative reciprocal."""
    zero = use.number(0)
    return use("Or", use("Less", x, zero), use("Less", use("Reciprocal", x), zero))


_NAMES = {
    **{"abs": "Abs", "negative": "Neg", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sqrt": "Sqrt"},
    **{"exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos"},
    **{"atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh"},
    **{"atanh": "Atanh", "erf": "Erf", "expit": "Sigmoid", "isnan": "IsNaN", "isinf": "IsInf"},
    **{"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "equal": "Equal", "less": "Less"},
    **{"less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual"},
    **{"logical_not": "Not", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"},
    **{"bitwise_invert": "BitwiseNot", "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr"},
    "bitwise_xor": "BitwiseXor",
}
ROWS: Mapping[str, OnnxRow] = {
    **{ours: operator(theirs) for ours, theirs in _NAMES.items()},
    "not_equal": lambda use: use("Not", use("Equal", *use.inputs)),
    "where": _where,
    "square": lambda use: use("Mul", *use.inputs, *use.inputs),
    "sign": _sign,
    "trunc": _trunc,
    "isfinite": _isfinite,
    **dict.fromkeys(("maximum", "minimum"), _extreme),
    **dict.fromkeys(("log2", "log10"), _logarithm),
    "expm1": _expm1,
    "log1p": _log1p,
    "atan2": _atan2,
}
