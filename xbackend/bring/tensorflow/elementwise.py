"""Operations that are a function of their operands alone: elementwise, and some of rows and matrices.

TensorFlow's operands have one dtype already, and their shapes broadcast.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api import linalg
from xbackend.api.tracing.array import Array
from xbackend.bring.scalars import Scalar, clip, log_softmax, named, quotient, remainder, softmax, softplus, stopped
from xbackend.bring.tensorflow.walk import TensorFlowWalk, array, held, other_gradient, row
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType
from xbackend.program.shapes import broadcast_shapes


def _div_no_nan(x: Any, y: Any) -> Any:
    zero = xb.equal(y, 0)
    return xb.where(zero, 0, xb.divide(x, xb.where(zero, 1, y)))  # the inner one keeps NaN out of the gradient


def _mul_no_nan(x: Any, y: Any) -> Any:
    # Where y is 0, the gradient by y is x, if x is finite.
    none = xb.logical_and(xb.equal(y, 0), xb.logical_not(xb.isfinite(x)))
    return xb.multiply(xb.where(none, 0, x), y)


def _where_x(of: Scalar) -> Scalar:
    """``of(x, y)``. Where x is 0, the result and its gradient are 0."""

    def function(x: Any, y: Any) -> Any:
        zero = xb.equal(x, 0.0)
        return xb.where(zero, 0, of(x, xb.where(zero, 1.0, y)))

    return function


def _relu(x: Any) -> Any:
    # NaN stays, and the gradient at 0 is 0.
    return xb.where(xb.less_equal(x, 0), 0, x)


def _elu(x: Any) -> Any:
    below = xb.less(x, 0.0)
    return xb.where(below, xb.expm1(xb.where(below, x, 0.0)), x)


def _selu(x: Any) -> Any:
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    below = xb.less(x, 0.0)
    return xb.where(below, xb.multiply(scale * alpha, xb.expm1(xb.where(below, x, 0.0))), xb.multiply(scale, x))


def _grad(of: Scalar) -> Scalar:
    """A gradient operation. Its operands are the result y and the gradient of y."""
    return lambda y, dy: xb.multiply(dy, of(y))


def _select(condition: Any, x: Any, y: Any) -> Any:
    # TensorFlow 1's condition may be a vector, which chooses rows.
    if condition.ndim == 1 and x.ndim > 1:
        condition = xb.reshape(condition, (-1, *[1] * (x.ndim - 1)))
    return xb.where(condition, x, y)


FUNCTIONS: dict[str, Scalar] = {
    **named("abs sign square sqrt exp expm1 log log1p floor ceil erf erfc erfinv digamma", str.capitalize),
    **named("sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh", str.capitalize),
    **{"Neg": xb.negative, "Rint": xb.round, "Round": xb.round, "Lgamma": xb.gammaln, "Sigmoid": xb.expit},
    **{"IsNan": xb.isnan, "IsInf": xb.isinf, "IsFinite": xb.isfinite},
    **{"LogicalNot": xb.logical_not, "Invert": xb.bitwise_invert},
    **{"OnesLike": xb.ones_like, "ZerosLike": xb.zeros_like},
    **dict.fromkeys(("Reciprocal", "Inv"), xb.reciprocal),
    **{"Relu": _relu, "Elu": _elu, "Selu": _selu, "Softplus": softplus},
    "Relu6": lambda x: xb.where(xb.greater_equal(x, 6), 6, _relu(x)),
    "Rsqrt": lambda x: xb.divide(1.0, xb.sqrt(x)),
    "Softsign": lambda x: xb.divide(x, xb.add(1.0, xb.abs(x))),
    "L2Loss": lambda x: xb.multiply(xb.sum(xb.square(x)), 0.5),
    **{"Cholesky": linalg.cholesky, "MatrixDeterminant": linalg.det, "Softmax": softmax, "LogSoftmax": log_softmax},
    "LogMatrixDeterminant": lambda x: list(linalg.slogdet(x)),
    **named("pow maximum minimum atan2 less greater", str.capitalize),
    **{"Add": xb.add, "AddV2": xb.add, "Sub": xb.subtract, "Mul": xb.multiply, "RealDiv": xb.divide},
    "Div": lambda x, y: (xb.divide if x.dtype.is_floating else quotient)(x, y),
    "FloorDiv": lambda x, y: xb.floor(xb.divide(x, y)) if x.dtype.is_floating else xb.floor_divide(x, y),
    **{"FloorMod": xb.remainder, "TruncateDiv": quotient, "TruncateMod": remainder, "Mod": remainder},
    **{"DivNoNan": _div_no_nan, "MulNoNan": _mul_no_nan},
    "Xdivy": _where_x(xb.divide),
    "Xlogy": _where_x(lambda x, y: xb.multiply(x, xb.log(y))),
    "Xlog1py": _where_x(lambda x, y: xb.multiply(x, xb.log1p(y))),
    "SquaredDifference": lambda x, y: xb.square(xb.subtract(x, y)),
    **{"LessEqual": xb.less_equal, "GreaterEqual": xb.greater_equal},
    **{"LogicalAnd": xb.logical_and, "LogicalOr": xb.logical_or},
    **{"BitwiseAnd": xb.bitwise_and, "BitwiseOr": xb.bitwise_or, "BitwiseXor": xb.bitwise_xor},
    **{"LeftShift": xb.bitwise_left_shift, "RightShift": xb.bitwise_right_shift},
    "Cross": lambda x, y: linalg.cross(x, y, axis=-1),
    # Gradient operations. Their operands are the result (or the argument) and the gradient of the result.
    "TanhGrad": _grad(lambda y: xb.subtract(1.0, xb.square(y))),
    "SigmoidGrad": _grad(lambda y: xb.multiply(y, xb.subtract(1.0, y))),
    "SqrtGrad": _grad(lambda y: xb.divide(0.5, y)),
    "RsqrtGrad": _grad(lambda y: xb.multiply(-0.5, xb.multiply(y, xb.square(y)))),
    **dict.fromkeys(("ReciprocalGrad", "InvGrad"), _grad(lambda y: xb.negative(xb.square(y)))),
    "ReluGrad": lambda dy, x: xb.where(xb.greater(x, 0), dy, 0),
    "Relu6Grad": lambda dy, x: xb.where(xb.logical_and(xb.greater(x, 0), xb.less(x, 6)), dy, 0),
    "SoftplusGrad": lambda dy, x: xb.multiply(dy, xb.expit(x)),
    "EluGrad": lambda dy, y: xb.where(xb.less(y, 0.0), xb.multiply(dy, xb.add(y, 1.0)), dy),
    # Of three operands, and of more.
    **{"ClipByValue": clip, "Select": _select, "SelectV2": xb.where},
    "AddN": lambda *each: reduce(xb.add, each),
}


@row(*FUNCTIONS, attributes="grad_x grad_y")
def of_arrays(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return FUNCTIONS[operation.type](*map(array, values))


@row("Equal", "NotEqual", attributes="incompatible_shape_error")
def equality(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x, y = map(array, values)
    if not operation.get_attr("incompatible_shape_error"):
        try:
            broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return np.asarray(operation.type == "NotEqual")
    return (xb.equal if operation.type == "Equal" else xb.not_equal)(x, y)


@row("LeakyRelu", "LeakyReluGrad", attributes="alpha")
def leaky_relu(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """The first operand, times alpha where the argument x is not positive: x itself, or the gradient of the result."""
    scaled, x = array(values[0]), array(values[-1])
    slope = float(np.float32(operation.get_attr("alpha")))
    return xb.where(xb.greater(x, 0.0), scaled, xb.multiply(scaled, slope))


@row("Cast", attributes="Truncate")
def cast(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    if operation.get_attr("Truncate"):
        raise GraphError("a cast that cuts bits off has no row: let it round")
    x, dtype = array(values[0]), held(operation.get_attr("DstT"))
    if dtype is DType.bool and x.dtype is not DType.bool:
        return xb.not_equal(x, 0)
    return x if dtype is x.dtype else xb.astype(x, dtype)


@row("StopGradient", folds=False)
def stop_gradient(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return stopped(values[0]) if walk.shared.gradients and isinstance(values[0], Array) else values[0]


@row("PreventGradient", attributes="message", folds=False)
def prevent_gradient(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    if walk.shared.gradients:
        other_gradient(values, "tf.raw_ops.PreventGradient is an error where a gradient comes to it")
    return values[0]
