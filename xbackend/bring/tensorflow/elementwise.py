"""Elementwise operations: a row for each, by its type.

TensorFlow's operands have one dtype already, and their shapes broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.bring.tensorflow.walk import Walk, array, held, row
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType
from xbackend.program.shapes import broadcast_shapes

Scalar = Callable[..., Any]


def _without(zero: Any, of: Scalar, x: Any, y: Any) -> Any:
    """``of(x, y)``, and 0 with no gradient where ``zero`` holds."""
    return xb.where(zero, 0, of(x, y))


def _div_no_nan(x: Any, y: Any) -> Any:
    zero = xb.equal(y, 0)
    return _without(zero, xb.divide, x, xb.where(zero, 1, y))


def _mul_no_nan(x: Any, y: Any) -> Any:
    # The gradient of y is x, where y is 0, too.
    none = xb.logical_and(xb.equal(y, 0), xb.logical_not(xb.isfinite(x)))
    return xb.multiply(xb.where(none, 0, x), y)


def _where_x(of: Scalar, instead: float) -> Scalar:
    """``x * of(y)`` that is 0 where x is."""

    def function(x: Any, y: Any) -> Any:
        zero = xb.equal(x, 0.0)
        return _without(zero, lambda a, b: xb.multiply(a, of(b)), x, xb.where(zero, instead, y))

    return function


def _floor_div(x: Any, y: Any) -> Any:
    return xb.floor(xb.divide(x, y)) if x.dtype.is_floating else xb.floor_divide(x, y)


def _truncate_div(x: Any, y: Any) -> Any:
    if x.dtype.is_floating:
        return xb.trunc(xb.divide(x, y))
    if x.dtype.is_unsigned:
        return xb.floor_divide(x, y)
    size = xb.floor_divide(xb.abs(x), xb.abs(y))
    return xb.where(xb.equal(xb.less(x, 0), xb.less(y, 0)), size, xb.negative(size))


def _truncate_mod(x: Any, y: Any) -> Any:
    if x.dtype.is_unsigned:
        return xb.remainder(x, y)
    size = xb.remainder(xb.abs(x), xb.abs(y))
    return xb.where(xb.less(x, 0), xb.negative(size), size)


def _div(x: Any, y: Any) -> Any:
    return xb.divide(x, y) if x.dtype.is_floating else _truncate_div(x, y)


def _relu(x: Any) -> Any:
    # NaN stays, and the gradient at 0 is 0.
    return xb.where(xb.less_equal(x, 0), 0, x)


def _relu6(x: Any) -> Any:
    return xb.where(xb.greater_equal(x, 6), 6, _relu(x))


def _elu(x: Any) -> Any:
    below = xb.less(x, 0.0)
    return xb.where(below, xb.expm1(xb.where(below, x, 0.0)), x)


def _selu(x: Any) -> Any:
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    below = xb.less(x, 0.0)
    return xb.where(below, xb.multiply(scale * alpha, xb.expm1(xb.where(below, x, 0.0))), xb.multiply(scale, x))


def _softplus(x: Any) -> Any:
    return xb.logaddexp(x, 0.0)


def _grad(of: Scalar) -> Scalar:
    """A gradient op that gets the result y and the gradient of it."""
    return lambda y, dy: xb.multiply(dy, of(y))


OF_ONE: dict[str, Scalar] = {
    "Abs": xb.abs,
    "Neg": xb.negative,
    "Sign": xb.sign,
    "Square": xb.square,
    "Sqrt": xb.sqrt,
    "Rsqrt": lambda x: xb.divide(1.0, xb.sqrt(x)),
    "Reciprocal": xb.reciprocal,
    "Inv": xb.reciprocal,
    "Exp": xb.exp,
    "Expm1": xb.expm1,
    "Log": xb.log,
    "Log1p": xb.log1p,
    "Sin": xb.sin,
    "Cos": xb.cos,
    "Tan": xb.tan,
    "Asin": xb.asin,
    "Acos": xb.acos,
    "Atan": xb.atan,
    "Sinh": xb.sinh,
    "Cosh": xb.cosh,
    "Tanh": xb.tanh,
    "Asinh": xb.asinh,
    "Acosh": xb.acosh,
    "Atanh": xb.atanh,
    "Erf": xb.erf,
    "Erfc": xb.erfc,
    "Erfinv": xb.erfinv,
    "Lgamma": xb.gammaln,
    "Digamma": xb.digamma,
    "Sigmoid": xb.expit,
    "Softplus": _softplus,
    "Softsign": lambda x: xb.divide(x, xb.add(1.0, xb.abs(x))),
    "Relu": _relu,
    "Relu6": _relu6,
    "Elu": _elu,
    "Selu": _selu,
    "Floor": xb.floor,
    "Ceil": xb.ceil,
    "Rint": xb.round,
    "Round": xb.round,
    "IsNan": xb.isnan,
    "IsInf": xb.isinf,
    "IsFinite": xb.isfinite,
    "LogicalNot": xb.logical_not,
    "Invert": xb.bitwise_invert,
    "OnesLike": xb.ones_like,
    "ZerosLike": xb.zeros_like,
    "L2Loss": lambda x: xb.multiply(xb.sum(xb.square(x)), 0.5),
}
OF_TWO: dict[str, Scalar] = {
    "Add": xb.add,
    "AddV2": xb.add,
    "Sub": xb.subtract,
    "Mul": xb.multiply,
    "RealDiv": xb.divide,
    "Div": _div,
    "FloorDiv": _floor_div,
    "FloorMod": xb.remainder,
    "TruncateDiv": _truncate_div,
    "TruncateMod": _truncate_mod,
    "Mod": _truncate_mod,
    "DivNoNan": _div_no_nan,
    "MulNoNan": _mul_no_nan,
    "Xdivy": _where_x(xb.reciprocal, 1.0),
    "Xlogy": _where_x(xb.log, 1.0),
    "Xlog1py": _where_x(xb.log1p, 1.0),
    "Pow": xb.pow,
    "SquaredDifference": lambda x, y: xb.square(xb.subtract(x, y)),
    "Maximum": xb.maximum,
    "Minimum": xb.minimum,
    "Atan2": xb.atan2,
    "Less": xb.less,
    "LessEqual": xb.less_equal,
    "Greater": xb.greater,
    "GreaterEqual": xb.greater_equal,
    "LogicalAnd": xb.logical_and,
    "LogicalOr": xb.logical_or,
    "BitwiseAnd": xb.bitwise_and,
    "BitwiseOr": xb.bitwise_or,
    "BitwiseXor": xb.bitwise_xor,
    "LeftShift": xb.bitwise_left_shift,
    "RightShift": xb.bitwise_right_shift,
    # What TensorFlow's gradients are made of: of the result (or the argument) and the gradient.
    "TanhGrad": _grad(lambda y: xb.subtract(1.0, xb.square(y))),
    "SigmoidGrad": _grad(lambda y: xb.multiply(y, xb.subtract(1.0, y))),
    "SqrtGrad": _grad(lambda y: xb.divide(0.5, y)),
    "RsqrtGrad": _grad(lambda y: xb.multiply(-0.5, xb.multiply(y, xb.square(y)))),
    "ReciprocalGrad": _grad(lambda y: xb.negative(xb.square(y))),
    "InvGrad": _grad(lambda y: xb.negative(xb.square(y))),
    "ReluGrad": lambda dy, x: xb.where(xb.greater(x, 0), dy, 0),
    "Relu6Grad": lambda dy, x: xb.where(xb.logical_and(xb.greater(x, 0), xb.less(x, 6)), dy, 0),
    "SoftplusGrad": lambda dy, x: xb.multiply(dy, xb.expit(x)),
    "EluGrad": lambda dy, y: xb.where(xb.less(y, 0.0), xb.multiply(dy, xb.add(y, 1.0)), dy),
}


@row(*OF_ONE)
def of_one(walk: Walk, operation: Any, values: list[Any]) -> Any:
    return OF_ONE[operation.type](array(values[0]))


@row(*OF_TWO, attributes="grad_x grad_y")
def of_two(walk: Walk, operation: Any, values: list[Any]) -> Any:
    return OF_TWO[operation.type](*map(array, values))


@row("Equal", "NotEqual", attributes="incompatible_shape_error")
def equality(walk: Walk, operation: Any, values: list[Any]) -> Any:
    x, y = map(array, values)
    if not operation.get_attr("incompatible_shape_error"):
        try:
            broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return np.asarray(operation.type == "NotEqual")
    return (xb.equal if operation.type == "Equal" else xb.not_equal)(x, y)


@row("AddN")
def add_n(walk: Walk, operation: Any, values: list[Any]) -> Any:
    return reduce(xb.add, map(array, values))


@row("LeakyRelu", attributes="alpha")
def leaky_relu(walk: Walk, operation: Any, values: list[Any]) -> Any:
    x, alpha = array(values[0]), np.float32(operation.get_attr("alpha"))
    return xb.where(xb.greater(x, 0.0), x, xb.multiply(x, float(alpha)))


@row("LeakyReluGrad", attributes="alpha")
def leaky_relu_grad(walk: Walk, operation: Any, values: list[Any]) -> Any:
    slope = float(np.float32(operation.get_attr("alpha")))
    return xb.where(xb.greater(array(values[1]), 0.0), array(values[0]), xb.multiply(array(values[0]), slope))


@row("ClipByValue")
def clip(walk: Walk, operation: Any, values: list[Any]) -> Any:
    x, low, high = map(array, values)
    return xb.where(xb.less(x, low), low, xb.where(xb.greater(x, high), high, x))


@row("Select", "SelectV2")
def select(walk: Walk, operation: Any, values: list[Any]) -> Any:
    """`tf.where`. TensorFlow 1's condition may be a vector, a number for each row."""
    condition, x, y = map(array, values)
    if operation.type == "Select" and condition.ndim == 1 and x.ndim > 1:
        condition = xb.reshape(condition, (-1, *[1] * (x.ndim - 1)))
    return xb.where(condition, x, y)


@row("Cast", attributes="Truncate")
def cast(walk: Walk, operation: Any, values: list[Any]) -> Any:
    if operation.get_attr("Truncate"):
        raise GraphError("a cast that cuts bits off has no row: let it round")
    x, dtype = array(values[0]), held(operation.get_attr("DstT"))
    if dtype is DType.bool and x.dtype is not DType.bool:
        return xb.not_equal(x, 0)
    return x if dtype is x.dtype else xb.astype(x, dtype)
