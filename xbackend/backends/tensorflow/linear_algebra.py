"""Linear algebra lowered to TensorFlow's ops: rows as those of `ops`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xbackend.backends.rows import Row
from xbackend.errors import UnsupportedOperation
from xbackend.program.program import Node

_KERNELS = "https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/compiler/tf2xla/kernels"
_NO_DETERMINANT = (
    f"XLA has no determinants ({_KERNELS}); take the backend tensorflow, or the diagonal of xb.linalg.cholesky or of R "
    "of xb.linalg.qr"
)


def _det(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    if xla:
        raise UnsupportedOperation(_NO_DETERMINANT)
    return tf.raw_ops.MatrixDeterminant(input=inputs[0])


def _diagonal(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    if not node.aval.size:
        return tf.zeros(node.shape, node.dtype.value)
    return tf.linalg.diag_part(inputs[0], k=node.params["offset"])


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


ROWS: Mapping[str, Row] = {
    "cholesky": lambda tf, node, inputs, xla: tf.raw_ops.Cholesky(input=inputs[0]),
    "inv": lambda tf, node, inputs, xla: tf.raw_ops.MatrixInverse(input=inputs[0]),
    "det": _det,
    "slogdet": _slogdet,
    "solve": lambda tf, node, inputs, xla: tf.raw_ops.MatrixSolve(matrix=inputs[0], rhs=inputs[1]),
    "solve_triangular": lambda tf, node, inputs, xla: tf.raw_ops.MatrixTriangularSolve(
        matrix=inputs[0], rhs=inputs[1], lower=bool(node.params["lower"])
    ),
    "diagonal": _diagonal,
    "eigh": _eigh,
    "eigvalsh": _eigvalsh,
    "qr": _qr,
    "svd": _svd,
    "svdvals": _svdvals,
}
