"""Products, factorisations and diagonals of matrices, and linear systems."""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api import linalg
from xbackend.bring.arrays import on_diagonal
from xbackend.bring.tensorflow.walk import TensorFlowWalk, array, held, known, row, whole
from xbackend.errors import GraphError


def _turned(operation: Any, attribute: str, value: Any) -> Any:
    """The operand, with its matrices transposed if the attribute is true."""
    return xb.matrix_transpose(array(value)) if operation.get_attr(attribute) else array(value)


@row("MatMul", attributes="transpose_a transpose_b grad_a grad_b")
def matmul(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return xb.matmul(_turned(operation, "transpose_a", values[0]), _turned(operation, "transpose_b", values[1]))


@row("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", attributes="adj_x adj_y grad_x grad_y")
def batch_matmul(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    a, b = _turned(operation, "adj_x", values[0]), _turned(operation, "adj_y", values[1])
    if operation.type == "BatchMatMulV3":
        dtype = held(operation.get_attr("Tout"))
        a, b = (one if one.dtype is dtype else xb.astype(one, dtype) for one in (a, b))
    return xb.matmul(a, b)


@row("Einsum", attributes="equation")
def einsum(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return xb.einsum(operation.get_attr("equation").decode(), *map(array, values))


def _lower(x: Any) -> Any:
    """Symmetric matrices with these lower triangles; the upper ones are not read."""
    return xb.add(xb.tril(x), xb.matrix_transpose(xb.tril(x, k=-1)))


@row("MatrixInverse", attributes="adjoint")
def inverse(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return linalg.inv(_turned(operation, "adjoint", values[0]))


@row("MatrixSolve", attributes="adjoint")
def solve(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return linalg.solve(_turned(operation, "adjoint", values[0]), array(values[1]))


@row("MatrixTriangularSolve", "BatchMatrixTriangularSolve", attributes="lower adjoint")
def triangular_solve(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    lower = operation.get_attr("lower") != operation.get_attr("adjoint")
    return linalg.solve_triangular(_turned(operation, "adjoint", values[0]), array(values[1]), lower=lower)


@row("SelfAdjointEigV2", attributes="compute_v")
def eigh(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x = _lower(array(values[0]))
    if operation.get_attr("compute_v"):
        return list(linalg.eigh(x))
    return [linalg.eigvalsh(x), np.zeros((0,), x.dtype.value)]


@row("Qr", attributes="full_matrices")
def qr(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return list(linalg.qr(array(values[0]), mode="complete" if operation.get_attr("full_matrices") else "reduced"))


@row("Svd", attributes="compute_uv full_matrices")
def svd(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """TensorFlow gives the singular values first, and the right vectors as columns."""
    x = array(values[0])
    if not operation.get_attr("compute_uv"):
        nothing = np.zeros((0,), x.dtype.value)
        return [linalg.svdvals(x), nothing, nothing]
    left, sizes, right = linalg.svd(x, full_matrices=operation.get_attr("full_matrices"))
    return [sizes, left, xb.matrix_transpose(right)]


@row("MatrixBandPart")
def band(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x = array(values[0])
    below, above = (whole(one, "the width of a band") for one in values[1:])
    x = x if above < 0 else xb.tril(x, k=above)
    return x if below < 0 else xb.triu(x, k=-below)


@row("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", "DiagPart", attributes="align")
def diagonal(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x = array(values[0])
    if operation.type == "DiagPart" and x.ndim != 2:
        raise GraphError("a diagonal of an array of another rank than 2 has no row: use tf.linalg.diag_part")
    return linalg.diagonal(x, offset=_offset(values[1]) if len(values) > 1 else 0)


def _offset(value: Any) -> int:
    each = np.unique(known(value, "the number of a diagonal"))
    if each.size != 1:
        raise GraphError("several diagonals at once have no row: take one after the other")
    return int(each[0])


@row("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", "Diag", attributes="align")
def diagonal_matrix(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x, k = array(values[0]), _offset(values[1]) if len(values) > 1 else 0
    if operation.type == "Diag" and x.ndim != 1:
        raise GraphError("a diagonal matrix of an array of another rank than 1 has no row: use tf.linalg.diag")
    rows, columns = _diagonal_shape(x.shape[-1], k, values[2:4])
    return on_diagonal(x, (rows, columns), k, array(values[4]) if len(values) > 4 else None)


def _diagonal_shape(length: int, k: int, given: list[Any]) -> tuple[int, int]:
    """Rows and columns: as given, else the fewest; a square where neither is given."""
    rows, columns = [whole(one, "the shape of a diagonal matrix") for one in given] or [-1, -1]
    least = length + max(-k, 0), length + max(k, 0)
    if rows == columns == -1:
        return max(least), max(least)
    return least[0] if rows == -1 else rows, least[1] if columns == -1 else columns


@row("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", attributes="align")
def set_diagonal(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x, new = array(values[0]), array(values[1])
    k = _offset(values[2]) if len(values) > 2 else 0
    return on_diagonal(new, x.shape[-2:], k, x)
