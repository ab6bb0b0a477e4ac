"""The op set lowered to TensorFlow's ops, raw ones where they mean what the standard says. A row adds ops to the graph
under construction, from the module ``tf``, the node, its inputs as tensors, and whether XLA will compile them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from xbackend.backends.numpy.ops import slices
from xbackend.backends.rows import LoweringRow, Rows
from xbackend.backends.special_numbers import Elementwise, is_half
from xbackend.backends.tensorflow import linear_algebra, sorting
from xbackend.backends.tensorflow.gradient_rules import mended
from xbackend.backends.tensorflow.linear_algebra import raw
from xbackend.backends.tensorflow.sorting import last
from xbackend.program.dtypes import DType
from xbackend.program.program import Node


def _raw(name: str) -> str:
    """TensorFlow's name of most ops: ``less_equal`` is ``LessEqual``."""
    return "".join(part.capitalize() for part in name.split("_"))


# TensorFlow's raw ops with one input x, by the standard's name.
_UNARY = {
    **{name: _raw(name) for name in ["exp", "expm1", "log", "log1p", "sqrt", "erfc", "erfinv", "digamma"]},
    **{name: _raw(name) for name in ["sin", "cos", "tan", "sinh", "cosh", "tanh"]},
    **{name: _raw(name) for name in ["asin", "acos", "atan", "asinh", "acosh", "atanh"]},
    "gammaln": "Lgamma",
    "expit": "Sigmoid",
    "negative": "Neg",
    "bitwise_invert": "Invert",
    "isnan": "IsNan",
    "isinf": "IsInf",
    "isfinite": "IsFinite",
}
# And with two inputs x and y.
_BINARY = {
    **{name: _raw(name) for name in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]},
    "add": "AddV2",
    "subtract": "Sub",
    "divide": "RealDiv",
    "logical_and": "LogicalAnd",
    "logical_or": "LogicalOr",
    "logical_xor": "NotEqual",
    **{name: _raw(name) for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]},
}


# From this number of indices on, a choice by their minimum takes less time than three ops over all of them.
MANY_INDICES = 16_384


def _mended(tf: Any, node: Node, inputs: Sequence[Any], xla: bool, *, name: str, theirs: LoweringRow) -> Any:
    """The op with the gradient of `gradient_rules`."""
    with mended(tf, name):
        return theirs(tf, node, inputs, xla)


def _erf(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    (x,) = inputs
    result = tf.raw_ops.Erf(x=x)
    if xla or x.dtype != tf.float64:
        return result
    # In double precision its own gives NaN from 1e155 on, whose square overflows (the vectorised erf of Eigen).
    return tf.where(tf.abs(x) > 1e100, tf.sign(x), result)


def _product(theirs: LoweringRow, tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    """XLA takes squares of integers for positive, also where they overflow: it gets products without signs."""
    if xla and node.dtype.is_integer:
        return _times(tf, inputs[0], inputs[-1])
    return theirs(tf, node, inputs, xla)


def _times(tf: Any, x: Any, y: Any) -> Any:
    without = {tf.int32: tf.uint32, tf.int64: tf.uint64}.get(x.dtype)
    if without is None:
        return tf.raw_ops.Mul(x=x, y=y)
    return tf.bitcast(tf.raw_ops.Mul(x=tf.bitcast(x, without), y=tf.bitcast(y, without)), x.dtype)


def _abs(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    (x,) = inputs
    # XLA assumes that it is not negative; that of the smallest integer is.
    return tf.where(x < 0, -x, x) if xla and node.dtype.is_integer else tf.raw_ops.Abs(x=x)


def _sign(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    sign = tf.raw_ops.Sign(x=inputs[0])
    # XLA and GPUs give -0 for -0.
    keeps = xla or "CPU" not in sign.device.upper()
    return _special(tf, node).positive_zero(sign) if keeps and node.dtype.is_floating else sign


def _trunc(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    (x,) = inputs
    return tf.where(x < 0, tf.raw_ops.Ceil(x=x), tf.raw_ops.Floor(x=x))


def _logarithm(base: float) -> LoweringRow:
    # TensorFlow has the natural logarithm only. A division is rounded once; a product with 1/log(base) would be twice.
    return lambda tf, node, inputs, xla: tf.raw_ops.Log(x=inputs[0]) / tf.constant(math.log(base), node.dtype.value)


def _special(tf: Any, node: Node) -> Elementwise:
    names = {"both": "logical_and", "either": "logical_or", "is_infinite": "math.is_inf"}
    return Elementwise.of(tf, lambda value: tf.constant(value, node.dtype.value), **names)


def _of_integers(tf: Any, name: str, x: Any, y: Any) -> Any:
    known = tf.get_static_value(y)
    if known is None or not np.all(known):
        # The standard leaves the number unspecified; TensorFlow would end the whole execution with an error.
        y = tf.where(tf.equal(y, 0), tf.ones_like(y), y)
    return getattr(tf.raw_ops, name)(x=x, y=y)


def _floor_divide(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    x, y = inputs
    if node.dtype.is_integer:
        return _of_integers(tf, "FloorDiv", x, y)
    # TensorFlow takes the floor of the rounded quotient; NumPy that of the exact one, as 1 // 0.1 is 9 and not 10.
    whole = tf.round(tf.divide(tf.subtract(x, tf.raw_ops.FloorMod(x=x, y=y)), y))
    # Where it is 0 `quotient` returns x / y, for the sign, and so the gradient of x / y.
    return tf.stop_gradient(_special(tf, node).quotient(x, y, whole))


def _remainder(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    x, y = inputs
    if node.dtype.is_integer:
        return _of_integers(tf, "FloorMod", x, y)
    return _special(tf, node).remainder(x, y, tf.raw_ops.FloorMod(x=x, y=y))


def _pow(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    x, y = inputs
    known = tf.get_static_value(y)
    if node.dtype.is_integer:
        if known is None or np.any(known < 0):
            y = tf.maximum(y, 0)  # as for division by zero
        if xla:
            return _power_by_squaring(tf, x, y)
    elif is_half(known):
        x = _special(tf, node).radicand(x)  # its optimiser takes the square root
    with mended(tf, "Pow"):
        return tf.raw_ops.Pow(x=x, y=y)


def _power_by_squaring(tf: Any, base: Any, exponent: Any) -> Any:
    """Powers of integers. XLA's own reads six bits of an exponent (tf2xla/kernels/binary_ops.cc: IntPow). From the 64th
    power on only powers of 0, 1 and -1 fit into 64 bits, and depend on the exponent's parity alone."""
    exponent = tf.where(exponent > 63, 62 + tf.bitwise.bitwise_and(exponent, tf.ones_like(exponent)), exponent)
    result = tf.ones_like(base)
    for bit in range(6):
        odd = tf.bitwise.bitwise_and(exponent, tf.constant(2**bit, exponent.dtype)) != 0
        result = tf.where(odd, _times(tf, result, base), result)
        base = _times(tf, base, base)
    return result


def _extremum(tf: Any, node: Node, inputs: Sequence[Any], xla: bool, *, name: str, before: str) -> Any:
    x, y = inputs
    if xla and node.dtype.is_floating:
        # XLA's CPU compiler drops NaN here (TensorFlow sets xla_cpu_enable_fast_min_max); comparisons keep it.
        first = getattr(tf.raw_ops, before)(x=x, y=y) | tf.math.is_nan(x)
        with mended(tf, name, made_as="SelectV2"):
            return tf.raw_ops.SelectV2(condition=first, t=x, e=y)
    with mended(tf, name):
        return getattr(tf.raw_ops, name)(x=x, y=y)


def _extreme_reduction(name: str, tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    result = _reduction(name, tf, node, inputs, xla)
    if xla and node.dtype.is_floating:  # for the same reason
        missing = tf.reduce_any(tf.math.is_nan(inputs[0]), axis=list(node.params["axis"]))
        result = tf.where(missing, tf.constant(math.nan, node.dtype.value), result)
    return result


def _along_axes(name: str, tf: Any, node: Node, inputs: Sequence[Any], xla: bool, *, argument: str = "x") -> Any:
    return getattr(tf.raw_ops, name)(**{argument: inputs[0]}, axis=tf.constant(node.params["axis"], tf.int32))


_reduction = partial(_along_axes, argument="input")


def _arg_reduction(name: str, tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    (x,) = inputs
    axis = node.params["axis"]
    result = getattr(tf.raw_ops, name)(input=x, dimension=axis, output_type=tf.int64)
    if x.dtype.is_floating:
        # As everywhere else the first NaN counts as the extreme; TensorFlow would pass over it.
        missing = tf.math.is_nan(x)
        # By way of float32: GPUs have no such kernel for integers.
        first = tf.raw_ops.ArgMax(input=tf.cast(missing, tf.float32), dimension=axis, output_type=tf.int64)
        result = tf.where(tf.reduce_any(missing, axis=axis), first, result)
    return result


def _matmul(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    a, b = inputs
    return tf.raw_ops.MatMul(a=a, b=b) if len(node.shape) == 2 else tf.raw_ops.BatchMatMulV2(x=a, y=b)


def _concat(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    if len(inputs) == 1:
        return inputs[0]
    return tf.raw_ops.ConcatV2(values=list(inputs), axis=tf.constant(node.params["axis"], tf.int32))


def _slice(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    if not node.params["starts"]:
        return inputs[0]
    drop = sum(1 << axis for axis in node.params["drop"])
    return tf.raw_ops.StridedSlice(input=inputs[0], **_bounds(tf, node), shrink_axis_mask=drop)


def _bounds(tf: Any, node: Node) -> dict[str, Any]:
    params = node.params
    open_ended = sum(1 << axis for axis, stop in enumerate(params["stops"]) if stop is None)
    return {
        "begin": tf.constant(list(params["starts"]), tf.int64),
        "end": tf.constant([0 if stop is None else stop for stop in params["stops"]], tf.int64),
        "strides": tf.constant(list(params["steps"]), tf.int64),
        "end_mask": open_ended,
    }


def _slice_written(tf: Any, node: Node, inputs: Sequence[Any], xla: bool, *, added: bool) -> Any:
    x, value = inputs
    if not node.shape:
        return x + value if added else value
    if 0 in value.shape:
        return x
    if xla and any(abs(step) != 1 for step in node.params["steps"]):
        return _scattered(tf, node, inputs, "TensorScatterAdd" if added else "TensorScatterUpdate")
    if added and set(node.params["steps"]) == {1} and 2 * math.prod(value.shape) >= math.prod(node.shape):
        return x + _padded(tf, node, value)
    where = _bounds(tf, node)
    if added:
        value = tf.raw_ops.StridedSlice(input=x, **where) + value
    return tf.raw_ops.TensorStridedSliceUpdate(input=x, value=value, **where)


def _padded(tf: Any, node: Node, value: Any) -> Any:
    """The value in an array of -0.0. For most of an array, to add that takes half as long as to write into a copy."""
    starts, lengths = node.params["starts"], value.shape
    around = [[start, n - start - length] for start, n, length in zip(starts, node.shape, lengths, strict=True)]
    nothing = tf.constant(-0.0 if node.dtype.is_floating else 0, node.dtype.value)
    return tf.raw_ops.PadV2(input=value, paddings=tf.constant(around, tf.int64), constant_values=nothing)


def _scattered(tf: Any, node: Node, inputs: Sequence[Any], name: str) -> Any:
    """A slice written by element: XLA writes no slice with steps (tf2xla/kernels/strided_slice_op.cc)."""
    x, value = inputs
    places = np.arange(math.prod(node.shape)).reshape(node.shape)[slices(node.params)].reshape(-1, 1)
    written = getattr(tf.raw_ops, name)(
        tensor=tf.reshape(x, [-1]), indices=tf.constant(places, tf.int64), updates=tf.reshape(value, [-1])
    )
    return tf.reshape(written, node.shape)


def _inside(tf: Any, indices: Any, length: int, xla: bool) -> Any:
    """The indices, negative ones counted from the beginning: TensorFlow's own ops take none."""
    known = tf.get_static_value(indices)
    if known is not None and (known >= 0).all():
        return indices

    def counted() -> Any:
        return tf.where(indices < 0, indices + tf.constant(length, indices.dtype), indices)

    here = tf.identity(indices).device  # an argument of a graph has none
    # A GPU has no kernel for `Min` of integers, and the choice would wait for it.
    if xla or indices.shape.num_elements() < MANY_INDICES or "CPU" not in here.upper():
        return counted()
    return tf.cond(tf.reduce_min(indices) < 0, counted, lambda: tf.identity(indices))


def _take(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    x, indices = inputs
    axis = node.params["axis"]
    places = _inside(tf, indices, x.shape[axis], xla)
    if 0 in node.shape:  # TensorFlow's gradient has a wrong shape then, unless the axis is the first one
        rows = tf.transpose(x, [axis, *(a for a in range(len(x.shape)) if a != axis)])
        return tf.reshape(tf.gather(rows, places), node.shape)
    return tf.gather(x, places, axis=axis)


def _along(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    x, indices = inputs
    axis, rank = node.params["axis"], len(node.shape)
    rows, places = last(tf, x, axis), last(tf, _inside(tf, indices, x.shape[axis], xla), axis)
    return last(tf, tf.gather(rows, places, axis=rank - 1, batch_dims=rank - 1), axis)


def _take_written(name: str, tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    x, indices, value = inputs
    if 0 in node.shape:  # into which TensorFlow writes nothing at any index
        return x
    axis, rank, inner = node.params["axis"], len(node.shape), len(indices.shape)
    first = [axis, *(a for a in range(rank) if a != axis)]
    moved = range(axis, axis + inner)
    of_value = [*moved, *(a for a in range(len(value.shape)) if a not in moved)]
    places, updates = tf.expand_dims(_inside(tf, indices, x.shape[axis], xla), -1), tf.transpose(value, of_value)
    if not inner:  # updates of rank 0 are refused ("must have rank at least one")
        places, updates = tf.expand_dims(places, 0), tf.expand_dims(updates, 0)
    written = getattr(tf.raw_ops, name)(tensor=tf.transpose(x, first), indices=places, updates=updates)
    return tf.transpose(written, [first.index(a) for a in range(rank)])


def _astype(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    (x,) = inputs
    if node.dtype is DType.bool and x.dtype != tf.bool:
        return tf.not_equal(x, tf.zeros((), x.dtype))
    return tf.cast(x, node.dtype.value)


TABLE = Rows(
    "TensorFlow",
    {
        **{name: raw(theirs, "x") for name, theirs in _UNARY.items()},
        **{name: raw(theirs, "x", "y") for name, theirs in _BINARY.items()},
        **{name: partial(_reduction, _raw(name)) for name in ("sum", "mean", "any", "all")},
        "prod": partial(_mended, name="Prod", theirs=partial(_reduction, "Prod")),
        "abs": _abs,
        "erf": _erf,
        "multiply": partial(_product, raw("Mul", "x", "y")),
        "square": partial(_product, raw("Square", "x")),
        "floor": raw("Floor", "x"),
        "ceil": raw("Ceil", "x"),
        "round": raw("Round", "x"),  # halves to the even one
        "sign": _sign,
        "trunc": _trunc,
        "log2": _logarithm(2.0),
        "log10": _logarithm(10.0),
        "atan2": raw("Atan2", "y", "x"),
        # Its optimiser writes `x <= y` for the LogicalNot of `x > y`, which a NaN is not.
        "logical_not": lambda tf, node, inputs, xla: tf.raw_ops.Equal(x=inputs[0], y=tf.constant(False)),
        "floor_divide": _floor_divide,
        "remainder": _remainder,
        "pow": _pow,
        "maximum": partial(_extremum, name="Maximum", before="GreaterEqual"),
        "minimum": partial(_extremum, name="Minimum", before="LessEqual"),
        "max": partial(_extreme_reduction, "Max"),
        "min": partial(_extreme_reduction, "Min"),
        "argmax": partial(_arg_reduction, "ArgMax"),
        "argmin": partial(_arg_reduction, "ArgMin"),
        "cumulative_sum": partial(_along_axes, "Cumsum"),
        "cumulative_prod": partial(_mended, name="Cumprod", theirs=partial(_along_axes, "Cumprod")),
        "matmul": _matmul,
        "conv2d": lambda tf, node, inputs, xla: tf.raw_ops.Conv2D(
            input=inputs[0],
            filter=inputs[1],
            strides=[1, *node.params["strides"], 1],
            padding="EXPLICIT",
            explicit_paddings=[0, 0, *node.params["padding"], 0, 0],
        ),
        "where": raw("SelectV2", "condition", "t", "e"),
        "reshape": lambda tf, node, inputs, xla: tf.raw_ops.Reshape(
            tensor=inputs[0], shape=tf.constant(list(node.shape), tf.int64)
        ),
        "permute_dims": lambda tf, node, inputs, xla: tf.raw_ops.Transpose(
            x=inputs[0], perm=tf.constant(list(node.params["axes"]), tf.int32)
        ),
        "broadcast_to": lambda tf, node, inputs, xla: tf.raw_ops.BroadcastTo(
            input=inputs[0], shape=tf.constant(list(node.shape), tf.int64)
        ),
        "concat": _concat,
        "stack": lambda tf, node, inputs, xla: tf.raw_ops.Pack(values=list(inputs), axis=node.params["axis"]),
        "slice": _slice,
        "take": _take,
        "take_along_axis": _along,
        "slice_set": partial(_slice_written, added=False),
        "slice_add": partial(_slice_written, added=True),
        "take_set": partial(_take_written, "TensorScatterUpdate"),
        "take_add": partial(_take_written, "TensorScatterAdd"),
        "astype": _astype,
        **linear_algebra.ROWS,
        **sorting.ROWS,
    },
)
"""One row per op that computes; sources, `transfer` and `grad` belong to the graph (`tensorflow.graph`), loops and
choices to `control_flow`."""
