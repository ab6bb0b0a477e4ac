"""Linear algebra lowered to TensorFlow's ops, in rows as in `ops`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from xbackend.backends.rows import LoweringRow
from xbackend.errors import UnsupportedOperation
from xbackend.program.program import Node

_KERNELS = "https://github.com/tensorflow/tensorflow/tree/v2.21.0/tensorflow/compiler/tf2xla/kernels"
_NO_DETERMINANT = (
    f"XLA has no determinants ({_KERNELS}); take the backend tensorflow, or the diagonal of xb.linalg.cholesky or of R "
    "of xb.linalg.qr"
)


def raw(name: str, *arguments: str) -> LoweringRow:
    """A row for a raw op, by the names of its inputs."""
    return lambda tf, node, inputs, xla: getattr(tf.raw_ops, name)(**dict(zip(arguments, inputs, strict=True)))


def _not_for_xla(theirs: LoweringRow, tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    if xla:
        raise UnsupportedOperation(_NO_DETERMINANT)
    return theirs(tf, node, inputs, xla)


def _diagonal(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    if not node.aval.size:
        return tf.reshape(inputs[0][..., :0], node.shape)  # of the input, so that its transfer is executed
    return tf.linalg.diag_part(inputs[0], k=node.params["offset"])


def _svd(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Sequence[Any]:
    found = tf.raw_ops.Svd(input=inputs[0], compute_uv=True, full_matrices=bool(node.params["full"]))
    return found.u, found.s, tf.linalg.matrix_transpose(found.v)


ROWS: Mapping[str, LoweringRow] = {
    "cholesky": raw("Cholesky", "input"),
    "inv": raw("MatrixInverse", "input"),
    "det": partial(_not_for_xla, raw("MatrixDeterminant", "input")),
    "slogdet": partial(_not_for_xla, raw("LogMatrixDeterminant", "input")),
    "solve": raw("MatrixSolve", "matrix", "rhs"),
    "solve_triangular": lambda tf, node, inputs, xla: tf.raw_ops.MatrixTriangularSolve(
        matrix=inputs[0], rhs=inputs[1], lower=bool(node.params["lower"])
    ),
    "diagonal": _diagonal,
    "eigh": raw("SelfAdjointEigV2", "input"),
    # XLA's computes the vectors in any case (tf2xla/kernels/xla_self_adjoint_eig_op.cc).
    "eigvalsh": lambda tf, node, inputs, xla: tf.raw_ops.SelfAdjointEigV2(input=inputs[0], compute_v=xla).e,
    "qr": lambda tf, node, inputs, xla: tf.raw_ops.Qr(input=inputs[0], full_matrices=bool(node.params["full"])),
    "svd": _svd,
    "svdvals": lambda tf, node, inputs, xla: tf.raw_ops.Svd(input=inputs[0], compute_uv=xla, full_matrices=False).s,
}
