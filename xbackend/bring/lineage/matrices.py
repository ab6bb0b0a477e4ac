"""Products, factorisations and solvers, alone or over batches (`Blockwise`).

Where ``cholesky``, ``eigh`` or ``solve`` reads one triangle, the matrix is taken to be symmetric, as in a program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api import linalg
from xbackend.api.tracing.array import Array
from xbackend.bring import dtypes
from xbackend.bring.arrays import is_diagonal, on_diagonal, with_ones
from xbackend.bring.lineage.arrays import inner_graph
from xbackend.bring.lineage.walk import LineageWalk, row
from xbackend.errors import GraphError, ShapeError
from xbackend.program.shapes import broadcast_shapes

Core = Callable[..., Any]
CORES: dict[str, Core] = {}  # by class of the core op: functions of the op and its arrays, batch axes first


def core(*names: str, props: str = "") -> Callable[[Core], Core]:
    """Register a function of an op and its arrays as the row of ops on matrices, alone and over batches."""

    def put(function: Core) -> Core:
        def alone(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
            return _kept(node, function(node.op, *_arrays(walk, node)))

        CORES.update(dict.fromkeys(names, function))
        row(*names, props=props)(alone)
        return function

    return put


def _kept(node: Any, made: Any) -> Any:
    return made if isinstance(made, list) else dtypes.in_range(made, node.outputs[0].type.dtype)


def _arrays(walk: LineageWalk, node: Any) -> list[Any]:
    """The inputs, cast to the result's dtype if that is a floating-point one."""
    dtype = node.outputs[0].type.dtype
    return [walk.cast(one, dtype) if "float" in dtype else walk.array(one) for one in node.inputs]


@row("Blockwise")
def blockwise(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    """An op over batches: its function in `CORES`, or else the op for each element of the batch, stacked."""
    op, name, signature = node.op.core_op, type(node.op.core_op).__name__, node.op.inputs_sig
    if name in CORES:
        arrays, _ = _batched(_arrays(walk, node), signature)
        return _kept(node, CORES[name](op, *arrays))
    arrays, batch = _batched([np.asarray(one) if not isinstance(one, Array) else one for one in values], signature)
    if not 0 < prod(batch) <= _MOST:
        raise GraphError(f"{name} over a batch of {batch} has no row")
    found = []
    for where in np.ndindex(*batch):
        kinds = [(one.type, one.type.ndim - len(own)) for one, own in zip(node.inputs, signature, strict=True)]
        inside = op.make_node(*(kind.clone(shape=kind.shape[axis:])() for kind, axis in kinds))
        parts = [one[where] if batch else one for one in arrays]
        found.append(LineageWalk(dict(zip(inside.inputs, parts, strict=True))).results(inside.outputs))
    if not batch:
        return found[0]
    results = zip(*found, strict=True)
    return [xb.reshape(xb.stack(list(map(dtypes.array, each))), (*batch, *each[0].shape)) for each in results]


def _batched(arrays: list[Any], signature: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The arrays broadcast to common batch axes, and the lengths of these axes."""
    inner = [one.shape[one.ndim - len(own) :] for one, own in zip(arrays, signature, strict=True)]
    batches = [one.shape[: one.ndim - len(own)] for one, own in zip(arrays, inner, strict=True)]
    common = broadcast_shapes(*batches)
    shapes = [(*common, *own) for own in inner]
    each = zip(arrays, shapes, strict=True)
    return [one if one.shape == shape else _broadcast(one, shape) for one, shape in each], common


def _broadcast(array: Any, shape: tuple[int, ...]) -> Any:
    """The array broadcast to the shape. A known one stays known."""
    return xb.broadcast_to(array, shape) if isinstance(array, Array) else np.broadcast_to(array, shape)


_MOST = 64


@core("Dot", "MatMul", "BatchedDot", "_BatchedDot")
def dot(op: Any, a: Any, b: Any) -> Any:
    return xb.matmul(a, b)


# Products in graphs of compiled functions.
core("Dot22")(dot)
core("Dot22Scalar")(lambda op, a, b, number: xb.multiply(dot(op, a, b), number))
core("Gemm", "Gemv", "CGemv")(lambda op, c, alpha, a, b, beta: beta * xb.asarray(c) + alpha * dot(op, a, b))
core("Ger", "CGer")(lambda op, a, alpha, x, y: a + alpha * linalg.outer(x, y))


@core("SolveTriangular", props="lower trans unit_diagonal")
def solve_triangular(op: Any, a: Any, b: Any) -> Any:
    trans, lower = getattr(op, "trans", 0), op.lower
    if trans in (1, 2, "T", "C"):
        a, lower = xb.matrix_transpose(a), not lower
    a = with_ones(a) if op.unit_diagonal else a
    return _solved(op, a, b, partial(linalg.solve_triangular, lower=lower))


@core("Solve", props="assume_a A_structure lower")
def solve(op: Any, a: Any, b: Any) -> Any:
    assumed = getattr(op, "assume_a", getattr(op, "A_structure", "gen"))  # the second is Theano's
    if assumed in ("lower_triangular", "upper_triangular"):
        return _solved(op, a, b, partial(linalg.solve_triangular, lower=assumed == "lower_triangular"))
    if assumed not in ("gen", "general", "sym", "symmetric", "her", "pos"):
        raise GraphError(f"solve with assume_a={assumed!r} has no row: leave assume_a out")
    return _solved(op, a, b, linalg.solve)


@core("CholeskySolve", "CholSolve", "CholeskySolver", props="lower")
def cholesky_solve(op: Any, a: Any, b: Any) -> Any:
    first = a if op.lower else xb.matrix_transpose(a)

    def both(m: Any, r: Any) -> Any:
        half = linalg.solve_triangular(m, r, lower=True)
        return linalg.solve_triangular(xb.matrix_transpose(m), half, lower=False)

    return _solved(op, first, b, both)


def _solved(op: Any, a: Any, b: Any, of: Callable[[Any, Any], Any]) -> Any:
    """The solution by ``of``. A vector on the right-hand side gets an axis, which the result loses again."""
    if getattr(op, "b_ndim", None) == 1 or (getattr(op, "b_ndim", None) is None and b.ndim == a.ndim - 1):
        return xb.squeeze(of(a, xb.expand_dims(b, axis=-1)), axis=-1)
    return of(a, b)


core("Cholesky", props="lower")(
    lambda op, x: linalg.cholesky(x) if op.lower else xb.matrix_transpose(linalg.cholesky(x))
)
core("MatrixInverse")(lambda op, x: linalg.inv(x))
core("MatrixPinv", "MatrixPseudoInverse")(lambda op, x: linalg.pinv(x))
core("Det")(lambda op, x: linalg.det(x))
core("SLogDet")(lambda op, x: list(linalg.slogdet(x)))


@core("Eigh", "Eigvalsh", props="lower UPLO")
def eigh(op: Any, x: Any, *others: Any) -> Any:
    if others:
        raise GraphError("eigenvalues of a pair of matrices have no row")
    return list(linalg.eigh(x)) if type(op).__name__ == "Eigh" else linalg.eigvalsh(x)


@core("SVD", props="full_matrices compute_uv")
def svd(op: Any, x: Any) -> Any:
    return list(linalg.svd(x, full_matrices=op.full_matrices)) if op.compute_uv else linalg.svdvals(x)


@core("QR", "QRFull", props="mode pivoting")
def qr(op: Any, x: Any) -> Any:
    if op.mode not in ("economic", "reduced", "full", "complete") or getattr(op, "pivoting", False):
        raise GraphError(f"qr with mode={op.mode!r} has no row")
    return list(linalg.qr(x, mode="complete" if op.mode in ("full", "complete") else "reduced"))


@row("ExtractDiag", props="offset axis1 axis2")
def extract_diag(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    op, array = node.op, walk.array(node.inputs[0])
    axes, last = (getattr(op, "axis1", 0), getattr(op, "axis2", 1)), (array.ndim - 2, array.ndim - 1)
    array = array if axes == last else xb.moveaxis(array, axes, last)
    return linalg.diagonal(array, offset=getattr(op, "offset", 0))


@row("FillDiagonal")
def fill_diagonal(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    array = walk.array(node.inputs[0])
    if array.ndim != 2:
        raise ShapeError("fill_diagonal of an array of another rank than 2 has no row")
    return xb.where(is_diagonal(array.shape), walk.cast(node.inputs[1], node.outputs[0].type.dtype), array)


@row("AllocDiag", props="offset axis1 axis2")
def alloc_diag(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    if hasattr(node.op, "fgraph"):
        return inner_graph(walk, node, values)
    array, offset = walk.array(node.inputs[0]), getattr(node.op, "offset", 0)
    offset = -offset if getattr(node.op, "axis1", 0) > getattr(node.op, "axis2", 1) else offset
    if array.ndim != 1:
        raise ShapeError("a diagonal matrix of an array of another rank than 1 has no row")
    size = array.shape[0] + abs(offset)
    return on_diagonal(array, (size, size), offset)
