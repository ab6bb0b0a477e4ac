"""Linear algebra, sorting, special functions and convolution lowered to TensorFlow's ops: rows as those of `ops`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xbackend.backends.rows import Row
from xbackend.backends.tensorflow.gradient_rules import mended
from xbackend.errors import UnsupportedOperation
from xbackend.program.program import Node

_KERNELS = "https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/compiler/tf2xla/kernels"
_NO_DETERMINANT = (
    f"XLA has no determinants ({_KERNELS}); take the backend tensorflow, or the diagonal of xb.linalg.cholesky or of R "
    "of xb.linalg.qr"
)


def _erf(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    (x,) = inputs
    result = tf.raw_ops.Erf(x=x)
    if xla or x.dtype != tf.float64:
        return result
    # In double precision its own gives NaN from 1e155 on, whose square overflows (the vectorised erf of Eigen).
    return tf.where(tf.abs(x) > 1e100, tf.sign(x), result)


def _det(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    if xla:
        raise UnsupportedOperation(_NO_DETERMINANT)
    return tf.raw_ops.MatrixDeterminant(input=inputs[0])


def _keys(tf: Any, x: Any) -> Any:
    """Whole numbers in the order of the numbers, NaN the last, of which no comparison of TensorFlow's is true: the bits
    of a floating-point number, those of negative ones turned."""
    if not x.dtype.is_floating:
        return x
    whole = tf.int32 if x.dtype == tf.float32 else tf.int64
    x = tf.where(tf.math.is_nan(x), tf.constant(np.nan, x.dtype), x)
    x = tf.where(tf.equal(x, 0), tf.zeros((), x.dtype), x)  # the zeros are equal
    bits = tf.bitcast(x, whole)
    return tf.where(bits < 0, tf.bitwise.bitwise_xor(bits, tf.constant(whole.max, whole)), bits)


def _order(tf: Any, node: Node, x: Any) -> Any:
    """The order of the elements of the last axis, which keeps that of equal ones; NaN are the last. TensorFlow has the
    largest elements only."""
    if not x.shape[-1]:
        return tf.zeros(x.shape, tf.int32)
    largest_first = tf.bitwise.invert(_keys(tf, x))
    k = tf.constant(x.shape[-1], tf.int32)
    return tf.raw_ops.TopKV2(input=largest_first, k=k, sorted=True).indices


def _last(tf: Any, x: Any, axis: int) -> Any:
    """The array with that axis exchanged with the last one."""
    rank = len(x.shape)
    if axis == rank - 1:
        return x
    order = [*range(rank)]
    order[axis], order[-1] = order[-1], order[axis]
    return tf.transpose(x, order)


def _sort(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    axis, rank = node.params["axis"], len(node.shape)
    x = _last(tf, inputs[0], axis)
    return _last(tf, tf.gather(x, _order(tf, node, x), axis=rank - 1, batch_dims=rank - 1), axis)


def _argsort(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    axis = node.params["axis"]
    return tf.cast(_last(tf, _order(tf, node, _last(tf, inputs[0], axis)), axis), tf.int64)


def _searchsorted(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    name = "UpperBound" if node.params["right"] else "LowerBound"
    vector, values = (tf.reshape(_keys(tf, x), [1, -1]) for x in inputs)
    return tf.reshape(getattr(tf.raw_ops, name)(sorted_inputs=vector, values=values, out_type=tf.int64), node.shape)


def _cumulative_prod(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    with mended(tf, "Cumprod"):
        return tf.raw_ops.Cumprod(x=inputs[0], axis=tf.constant(node.params["axis"], tf.int32))


def _diagonal(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    if not node.aval.size:
        return tf.zeros(node.shape, node.dtype.value)
    return tf.linalg.diag_part(inputs[0], k=node.params["offset"])


def _conv2d(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    return tf.raw_ops.Conv2D(
        input=inputs[0],
        filter=inputs[1],
        strides=[1, *node.params["strides"], 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, *node.params["padding"], 0, 0],
    )


def _eigh(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Sequence[Any]:
    found = tf.raw_ops.SelfAdjointEigV2(input=inputs[0], compute_v=True)
    return found.e, found.v


def _eigvalsh(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    # XLA's computes the vectors in any case (tf2xla/kernels/xla_self_adjoint_eig_op.cc).
    return tf.raw_ops.SelfAdjointEigV2(input=inputs[0], compute_v=xla).e


def _svdvals(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    return tf.raw_ops.Svd(input=inputs[0], compute_uv=xla, full_matrices=False).s


def _qr(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Sequence[Any]:
    found = tf.raw_ops.Qr(input=inputs[0], full_matrices=bool(node.params["full"]))
    return found.q, found.r


def _svd(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Sequence[Any]:
    found = tf.raw_ops.Svd(input=inputs[0], compute_uv=True, full_matrices=bool(node.params["full"]))
    return found.u, found.s, tf.linalg.matrix_transpose(found.v)


def _slogdet(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Sequence[Any]:
    if xla:
        raise UnsupportedOperation(_NO_DETERMINANT)
    found = tf.raw_ops.LogMatrixDeterminant(input=inputs[0])
    return found.sign, found.log_abs_determinant


RESULTS: Mapping[str, Callable[[Any, Node, Sequence[Any], bool], Sequence[Any]]] = {
    "eigh": _eigh,
    "qr": _qr,
    "svd": _svd,
    "slogdet": _slogdet,
}
"""All results of the ops that have several."""


def _unary(name: str) -> Row:
    return lambda tf, node, inputs, xla: getattr(tf.raw_ops, name)(x=inputs[0])


def _binary(name: str) -> Row:
    return lambda tf, node, inputs, xla: getattr(tf.raw_ops, name)(x=inputs[0], y=inputs[1])


ROWS: Mapping[str, Row] = {
    "erf": _erf,
    "erfc": _unary("Erfc"),
    "erfinv": _unary("Erfinv"),
    "gammaln": _unary("Lgamma"),
    "digamma": _unary("Digamma"),
    "expit": _unary("Sigmoid"),
    "bitwise_invert": _unary("Invert"),
    "bitwise_and": _binary("BitwiseAnd"),
    "bitwise_or": _binary("BitwiseOr"),
    "bitwise_xor": _binary("BitwiseXor"),
    "cumulative_prod": _cumulative_prod,
    "cholesky": lambda tf, node, inputs, xla: tf.raw_ops.Cholesky(input=inputs[0]),
    "inv": lambda tf, node, inputs, xla: tf.raw_ops.MatrixInverse(input=inputs[0]),
    "det": _det,
    "solve": lambda tf, node, inputs, xla: tf.raw_ops.MatrixSolve(matrix=inputs[0], rhs=inputs[1]),
    "solve_triangular": lambda tf, node, inputs, xla: tf.raw_ops.MatrixTriangularSolve(
        matrix=inputs[0], rhs=inputs[1], lower=bool(node.params["lower"])
    ),
    "diagonal": _diagonal,
    "eigvalsh": _eigvalsh,
    "svdvals": _svdvals,
    "sort": _sort,
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "conv2d": _conv2d,
}
