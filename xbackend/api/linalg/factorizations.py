"""Factorizations of matrices, results derived from them, and systems of linear equations.

For singular or not positive definite matrices the frameworks differ: docs/linear_algebra.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xbackend.api.functions.elementwise import add, divide, greater, multiply, where
from xbackend.api.functions.manipulation import broadcast_to, concat, expand_dims, matrix_transpose, reshape
from xbackend.api.functions.products import matmul
from xbackend.api.functions.reductions import max, sum
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import cast, is_scalar, operands
from xbackend.api.tracing.tracer import Tracer, current
from xbackend.errors import ArgumentError, DTypeError, ShapeError
from xbackend.program.dtypes import DType
from xbackend.program.shapes import broadcast_shapes


class SlogdetResult(NamedTuple):
    """A determinant as its sign (-1, 0 or 1) and the logarithm of its absolute value."""

    sign: Array
    logabsdet: Array


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""

    U: Array
    S: Array
    Vh: Array


def _matrices(name: str, x: Any) -> tuple[Tracer, Array]:
    tracer = current(f"xb.linalg.{name}")
    return tracer, tracer.array(x)


def _rows_and_columns(array: Array) -> tuple[int, int]:
    """The number of each; (0, 0) for a vector, which the op then refuses."""
    return (array.shape[-2], array.shape[-1]) if array.ndim > 1 else (0, 0)


def cholesky(x: Any, /, *, upper: bool = False) -> Array:
    """The lower triangle L with L @ L.mT = x, or with ``upper`` its transpose, of symmetric positive definite matrices.

    Shape (..., n, n), floating point. Its gradient with respect to x is symmetric.
    """
    tracer, array = _matrices("cholesky", x)
    lower = tracer.emit("cholesky", (array,), {})
    return matrix_transpose(lower) if upper else lower


def inv(x: Any, /) -> Array:
    """The inverses of square matrices: shape (..., n, n), floating point."""
    tracer, array = _matrices("inv", x)
    return tracer.emit("inv", (array,), {})


def det(x: Any, /) -> Array:
    """The determinants of square matrices: shape (...), floating point. `slogdet` does not overflow."""
    tracer, array = _matrices("det", x)
    return tracer.emit("det", (array,), {})


def slogdet(x: Any, /) -> SlogdetResult:
    """The determinants of square matrices as signs and logarithms of absolute values, each of shape (...)."""
    tracer, array = _matrices("slogdet", x)
    return SlogdetResult(*tracer.emit_all("slogdet", (array,), {}))


def _equations(name: str, a: Any, b: Any, **params: Any) -> Array:
    """The solution of a @ x = b. A vector is one right-hand side; leading axes broadcast."""
    tracer = current(f"xb.linalg.{name}")
    matrix, given = operands(name, tracer, a, b)
    vector = given.ndim == 1
    right = expand_dims(given, axis=-1) if vector else given
    if matrix.ndim < 2 or right.ndim < 2 or matrix.shape[-1] != right.shape[-2]:
        raise ShapeError(f"{name} of shapes {matrix.shape} and {given.shape}: square matrices, and as many rows")
    leading = broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    stacks = [m if m.shape[:-2] == leading else broadcast_to(m, (*leading, *m.shape[-2:])) for m in (matrix, right)]
    solution = tracer.emit(name, stacks, params)
    return reshape(solution, solution.shape[:-1]) if vector else solution


def solve(x1: Any, x2: Any, /) -> Array:
    """The x with x1 @ x = x2 for square matrices: x2 is a vector, or has a column for each right-hand side."""
    return _equations("solve", x1, x2)


def solve_triangular(x1: Any, x2: Any, /, *, lower: bool = False) -> Array:
    """`solve` for triangular matrices, the upper one unless ``lower``; the other triangle is not read.

    With the transpose of a lower triangle: ``solve_triangular(L.mT, b)``.
    """
    return _equations("solve_triangular", x1, x2, lower=int(bool(lower)))


def _symmetric(name: str, x: Any) -> tuple[Tracer, Array]:
    """The mean of the matrix and its transpose: some frameworks read one triangle, some both."""
    tracer, array = _matrices(name, x)
    if not array.dtype.is_floating:
        raise DTypeError(f"{name} takes floating-point arrays, not {array.dtype}; convert with xb.astype")
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"{name} takes square matrices, not shape {array.shape}")
    return tracer, multiply(add(array, matrix_transpose(array)), 0.5)


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues (..., n) and eigenvectors (..., n, n) of symmetric matrices; of others, those of (x + x.mT) / 2.

    The sign of an eigenvector is each framework's own.
    """
    tracer, array = _symmetric("eigh", x)
    return EighResult(*tracer.emit_all("eigh", (array,), {}))


def eigvalsh(x: Any, /) -> Array:
    """The eigenvalues of `eigh`."""
    tracer, array = _symmetric("eigvalsh", x)
    return tracer.emit("eigvalsh", (array,), {})


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """x = Q @ R with orthonormal columns of Q and upper triangular R: for x of shape (..., m, n), (..., m, k) and
    (..., k, n) with k = min(m, n), or k = m with ``mode="complete"``.

    The signs of Q's columns are each framework's own.
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"xb.linalg.qr has the modes 'reduced' and 'complete', not {mode!r:.40}")
    tracer, array = _matrices("qr", x)
    rows, columns = _rows_and_columns(array)
    # Columns beyond the number of rows do not affect Q, and not every framework has their gradient.
    first = array[..., :rows] if columns > rows else array
    full = int(mode == "complete" and rows > columns)
    q, r = tracer.emit_all("qr", (first,), {"full": full})
    if columns > rows:
        r = concat([r, matmul(matrix_transpose(q), array[..., rows:])], axis=-1)
    return QRResult(q, r)


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """x = U * S @ Vh with singular values S: for x of shape (..., m, n) and k = min(m, n), (..., m, m), (..., k) and
    (..., n, n), or without ``full_matrices`` (..., m, k), (..., k) and (..., k, n).

    The signs of singular vectors are each framework's own.
    """
    tracer, array = _matrices("svd", x)
    rows, columns = _rows_and_columns(array)
    full = int(bool(full_matrices) and rows != columns)
    return SVDResult(*tracer.emit_all("svd", (array,), {"full": full}))


def svdvals(x: Any, /) -> Array:
    """The singular values of matrices (..., m, n) in descending order: (..., min(m, n))."""
    tracer, array = _matrices("svdvals", x)
    return tracer.emit("svdvals", (array,), {})


def _smallest(values: Array, rtol: Any, shape: tuple[int, ...]) -> Array:
    """The largest singular value that counts as zero: ``rtol`` (eps * max(m, n) if None) times the largest one."""
    if rtol is None:
        eps = 2.0**-23 if values.dtype is DType.float32 else 2.0**-52
        share: Any = eps * (shape[-2] if shape[-2] > shape[-1] else shape[-1])
    elif is_scalar(rtol):
        share = rtol
    else:
        share = expand_dims(cast(current("rtol").array(rtol), values.dtype), axis=-1)
    return multiply(max(values, axis=-1, keepdims=True), share)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Array:
    """The number (int64) of singular values above ``rtol`` (eps * max(m, n) if None) times the largest."""
    array = current("xb.linalg.matrix_rank").array(x)
    values = svdvals(array)
    return sum(cast(greater(values, _smallest(values, rtol, array.shape)), DType.int64), axis=-1)


def pinv(x: Any, /, *, rtol: Any = None) -> Array:
    """The Moore-Penrose pseudo-inverses (..., n, m) of matrices (..., m, n).

    Singular values up to ``rtol`` (eps * max(m, n) if None) times the largest count as zero.
    """
    array = current("xb.linalg.pinv").array(x)
    left, values, right = svd(array, full_matrices=False)
    kept = greater(values, _smallest(values, rtol, array.shape))
    inverse = where(kept, divide(1.0, where(kept, values, 1.0)), 0.0)
    scaled = multiply(matrix_transpose(right), expand_dims(inverse, axis=-2))
    return matmul(scaled, matrix_transpose(left))
