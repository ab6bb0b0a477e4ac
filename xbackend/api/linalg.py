"""``xbackend.linalg``: the standard's extension for products, factorizations, equations and norms of matrices.

https://data-apis.org/array-api/2025.12/extensions/linear_algebra_functions.html

For singular or not positive definite matrices the frameworks differ: docs/linear_algebra.md.
"""

from __future__ import annotations

import builtins
import math
from functools import reduce
from typing import Any, NamedTuple

from xbackend.api.functions.creation import eye
from xbackend.api.functions.elementwise import abs, multiply, not_equal, pow, sqrt, square, where
from xbackend.api.functions.manipulation import broadcast_to, concat, expand_dims, matrix_transpose, reshape
from xbackend.api.functions.matrices import cross, diagonal, matmul, outer, stacks, tensordot, trace, vecdot
from xbackend.api.functions.reductions import max, min, sum
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import cast, copied, emitted, given, integer, is_scalar, normalize_axes, operands
from xbackend.errors import ArgumentError, DTypeError, ShapeError, TraceError
from xbackend.program.dtypes import DType

__all__ = ["cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power"]
__all__ += ["matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd"]
__all__ += ["svdvals", "tensordot", "trace", "vecdot", "vector_norm"]

LONGEST_CHAIN = 100_000


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


def _of(name: str, x: Any) -> Array:
    """The op of one array and one result."""
    return emitted(name, given(f"linalg.{name}", x))


def _rows_and_columns(array: Array) -> tuple[int, int]:
    """The number of each; (0, 0) for a vector, which the op then refuses."""
    return (array.shape[-2], array.shape[-1]) if array.ndim > 1 else (0, 0)


def cholesky(x: Any, /, *, upper: bool = False) -> Array:
    """The lower triangle L with L @ L.mT = x, or with ``upper`` its transpose, of symmetric positive definite matrices.

    Shape (..., n, n), floating point. Its gradient with respect to x is symmetric.

    >>> xp.linalg.cholesky(xp.asarray([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]], dtype=float64, device=cpu:0)
    """
    lower = _of("cholesky", x)
    return matrix_transpose(lower) if upper else lower


def inv(x: Any, /) -> Array:
    """The inverses of square matrices: shape (..., n, n), floating point.

    >>> xp.linalg.inv(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float64, device=cpu:0)
    """
    return _of("inv", x)


def det(x: Any, /) -> Array:
    """The determinants of square matrices: shape (...), floating point. `slogdet` does not overflow.

    >>> xp.linalg.det(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    array(8., dtype=float64, device=cpu:0)
    """
    return _of("det", x)


def slogdet(x: Any, /) -> SlogdetResult:
    """The determinants of square matrices as signs and logarithms of absolute values, each of shape (...).

    >>> float(xp.linalg.slogdet(xp.asarray([[2.0, 0.0], [0.0, -4.0]])).sign)
    -1.0
    """
    array = given("linalg.slogdet", x)
    return SlogdetResult(*array._tracer.emit_all("slogdet", (array,), {}))


def _equations(name: str, a: Any, b: Any, **params: Any) -> Array:
    """The solution of a @ x = b. A vector is one right-hand side; leading axes broadcast."""
    matrix, known = operands(f"linalg.{name}", a, b)
    vector = known.ndim == 1
    right = expand_dims(known, axis=-1) if vector else known
    if matrix.ndim < 2 or right.ndim < 2 or matrix.shape[-1] != right.shape[-2]:
        raise ShapeError(f"{name} of shapes {matrix.shape} and {known.shape}: square matrices, and as many rows")
    solution = emitted(name, *stacks(matrix, right), **params)
    return reshape(solution, solution.shape[:-1]) if vector else solution


def solve(x1: Any, x2: Any, /) -> Array:
    """The x with x1 @ x = x2 for square matrices: x2 is a vector, or has a column for each right-hand side.

    >>> xp.linalg.solve(xp.asarray([[2.0, 0.0], [0.0, 4.0]]), xp.asarray([2.0, 2.0]))
    array([1. , 0.5], dtype=float64, device=cpu:0)
    """
    return _equations("solve", x1, x2)


def solve_triangular(x1: Any, x2: Any, /, *, lower: bool = False) -> Array:
    """`solve` for triangular matrices, the upper one unless ``lower``; the other triangle is not read.

    With the transpose of a lower triangle: ``solve_triangular(L.mT, b)``.

    >>> xp.linalg.solve_triangular(xp.asarray([[2.0, 0.0], [1.0, 4.0]]), xp.asarray([2.0, 9.0]), lower=True)
    array([1., 2.], dtype=float64, device=cpu:0)
    """
    return _equations("solve_triangular", x1, x2, lower=int(bool(lower)))


def _floats(name: str, x: Any) -> Array:
    array = given(f"linalg.{name}", x)
    if not array.dtype.is_floating:
        raise DTypeError(f"{name} takes floating-point arrays, not {array.dtype}; convert with xb.astype")
    return array


def _square(name: str, array: Array) -> Array:
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"{name} takes square matrices, not shape {array.shape}")
    return array


def _symmetric(name: str, x: Any) -> Array:
    """The mean of the matrix and its transpose: some frameworks read one triangle, some both."""
    array = _square(name, _floats(name, x))
    return multiply(array + array.mT, 0.5)


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues (..., n) and eigenvectors (..., n, n) of symmetric matrices; other matrices count as (x + x.mT) / 2.

    The sign of an eigenvector is each framework's own.

    >>> values, vectors = xp.linalg.eigh(xp.asarray([[2.0, 0.0], [0.0, 1.0]]))
    >>> values, vectors.shape
    (array([1., 2.], dtype=float64, device=cpu:0), (2, 2))
    """
    array = _symmetric("eigh", x)
    return EighResult(*array._tracer.emit_all("eigh", (array,), {}))


def eigvalsh(x: Any, /) -> Array:
    """The eigenvalues of `eigh`.

    >>> xp.linalg.eigvalsh(xp.asarray([[2.0, 0.0], [0.0, 1.0]]))
    array([1., 2.], dtype=float64, device=cpu:0)
    """
    return emitted("eigvalsh", _symmetric("eigvalsh", x))


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """x = Q @ R with orthonormal columns of Q and upper triangular R: for x of shape (..., m, n), (..., m, k) and
    (..., k, n) with k = min(m, n), or k = m with ``mode="complete"``.

    The signs of Q's columns are each framework's own.

    >>> q, r = xp.linalg.qr(xp.ones((3, 2)))
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"xb.linalg.qr has the modes 'reduced' and 'complete', not {mode!r:.40}")
    array = given("linalg.qr", x)
    rows, columns = _rows_and_columns(array)
    # Columns beyond the number of rows do not affect Q, and not every framework has their gradient.
    first = array[..., :rows] if columns > rows else array
    full = int(mode == "complete" and rows > columns)
    q, r = array._tracer.emit_all("qr", (first,), {"full": full})
    if columns > rows:
        r = concat([r, q.mT @ array[..., rows:]], axis=-1)
    return QRResult(q, r)


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """x = U * S @ Vh with singular values S: for x of shape (..., m, n) and k = min(m, n), (..., m, m), (..., k) and
    (..., n, n), or without ``full_matrices`` (..., m, k), (..., k) and (..., k, n).

    The signs of singular vectors are each framework's own.

    >>> u, s, vh = xp.linalg.svd(xp.ones((3, 2)), full_matrices=False)
    >>> u.shape, s.shape, vh.shape
    ((3, 2), (2,), (2, 2))
    """
    array = given("linalg.svd", x)
    rows, columns = _rows_and_columns(array)
    full = int(bool(full_matrices) and rows != columns)
    return SVDResult(*array._tracer.emit_all("svd", (array,), {"full": full}))


def svdvals(x: Any, /) -> Array:
    """The singular values of matrices (..., m, n) in descending order: (..., min(m, n)).

    >>> xp.linalg.svdvals(xp.asarray([[3.0, 0.0], [0.0, 4.0]]))
    array([4., 3.], dtype=float64, device=cpu:0)
    """
    return _of("svdvals", x)


def _smallest(values: Array, rtol: Any, shape: tuple[int, ...]) -> Array:
    """The largest singular value that counts as zero: ``rtol`` (eps * max(m, n) if None) times the largest one."""
    if rtol is None:
        eps = 2.0**-23 if values.dtype is DType.float32 else 2.0**-52
        share: Any = eps * builtins.max(shape[-2:])
    elif is_scalar(rtol):
        share = rtol
    else:
        share = expand_dims(cast(given("linalg.pinv", rtol), values.dtype), axis=-1)
    return multiply(max(values, axis=-1, keepdims=True), share)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Array:
    """The number (int64) of singular values above ``rtol`` (eps * max(m, n) if None) times the largest.

    >>> int(xp.linalg.matrix_rank(xp.ones((3, 2))))
    1
    """
    array = given("linalg.matrix_rank", x)
    values = svdvals(array)
    return sum(cast(values > _smallest(values, rtol, array.shape), DType.int64), axis=-1)


def pinv(x: Any, /, *, rtol: Any = None) -> Array:
    """The Moore-Penrose pseudo-inverses (..., n, m) of matrices (..., m, n).

    Singular values up to ``rtol`` (eps * max(m, n) if None) times the largest count as zero.

    >>> xp.linalg.pinv(xp.asarray([[2.0, 0.0], [0.0, 0.0]]))
    array([[0.5, 0. ],
           [0. , 0. ]], dtype=float64, device=cpu:0)
    """
    array = given("linalg.pinv", x)
    left, values, right = svd(array, full_matrices=False)
    kept = values > _smallest(values, rtol, array.shape)
    inverse = where(kept, 1.0 / where(kept, values, 1.0), 0.0)
    return matmul(right.mT * expand_dims(inverse, axis=-2), left.mT)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: int | float = 2) -> Array:
    """The p-norm of vectors along the axes (all if None): (sum(abs(x)**ord))**(1/ord).

    ``ord`` may be inf (the largest absolute value), -inf (the smallest), 0 (the number of nonzero elements).

    >>> float(xp.linalg.vector_norm(xp.asarray([3.0, 4.0])))
    5.0
    """
    array = _floats("vector_norm", x)
    if not is_scalar(ord):
        raise ArgumentError(f"xb.linalg.vector_norm of the order {ord!r:.40}: it is a number")
    over: dict[str, Any] = {"axis": normalize_axes(axis, array.ndim), "keepdims": keepdims}
    if ord == math.inf:
        return max(abs(array), **over)
    if ord == -math.inf:
        return min(abs(array), **over)
    if ord == 0:
        return sum(cast(not_equal(array, 0.0), array.dtype), **over)
    if ord == 1:
        return sum(abs(array), **over)
    if ord == 2:
        return sqrt(sum(square(array), **over))
    return pow(sum(pow(abs(array), float(ord)), **over), 1.0 / ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """A norm of matrices: ``"fro"`` the root of the sum of squares, ``"nuc"`` the sum of singular values, 1 and -1 the
    largest and smallest sum of a column, inf and -inf of a row, 2 and -2 the largest and smallest singular value.

    >>> float(xp.linalg.matrix_norm(xp.asarray([[1.0, 2.0], [2.0, 4.0]])))
    5.0
    >>> float(xp.linalg.matrix_norm(xp.ones((2, 3)), ord=1))
    2.0
    """
    array = _floats("matrix_norm", x)
    if array.ndim < 2:
        raise ShapeError(f"matrix_norm takes matrices, not shape {array.shape}")
    if ord == "fro":
        result = sqrt(sum(square(array), axis=(-2, -1)))
    elif ord == "nuc":
        result = sum(svdvals(array), axis=-1)
    elif ord in (2, -2, 1, -1, math.inf, -math.inf):
        each = svdvals(array) if ord in (2, -2) else sum(abs(array), axis=-2 if ord in (1, -1) else -1)
        result = (max if ord > 0 else min)(each, axis=-1)
    else:
        raise ArgumentError(
            f"xb.linalg.matrix_norm of the order {ord!r:.40}: there is 'fro', 'nuc', 1, -1, 2, -2, inf and -inf"
        )
    return reshape(result, (*array.shape[:-2], 1, 1)) if keepdims else result


def matrix_power(x: Any, n: int, /, *, method: str = "squaring") -> Array:
    """The n-th power of square matrices (..., m, m), numeric. A negative n is a power of the inverse, of floating-point
    matrices only.

    ``method="squaring"`` takes at most 2*log2(n) products (binary powering, Knuth, TAOCP vol. 2, 4.6.3, algorithm A),
    ``method="chain"`` multiplies n-1 times, as benchmarks of devices do. Raises `ShapeError` for other matrices,
    `DTypeError` for inverses of integers, `TraceError` for an ``n`` that is no integer or too large for the method.

    >>> xp.linalg.matrix_power(xp.asarray([[1, 1], [1, 0]]), 10)
    array([[89, 55],
           [55, 34]], dtype=int64, device=cpu:0)
    """
    array = _square("matrix_power", given("linalg.matrix_power", x))
    exponent = integer(n)
    if exponent is None:
        raise TraceError(f"matrix_power to the power {n!r:.60}: the exponent is an integer known while tracing")
    n = exponent
    if n < 0:
        return matrix_power(inv(array), -n, method=method)
    if method == "chain":
        if n > LONGEST_CHAIN:
            raise TraceError(f"matrix_power to the power {n} by chain takes {n - 1} products; use method='squaring'")
    elif method != "squaring":
        raise TraceError(f"matrix_power has the methods 'chain' and 'squaring', not {method!r}")
    elif n >= 2**63:
        raise TraceError(f"matrix_power to the power {n}: exponents reach up to 2**63 - 1")
    if n == 0:
        return broadcast_to(eye(array.shape[-1], dtype=array.dtype), array.shape)
    if n == 1:
        return copied(array)
    return reduce(matmul, [array] * n) if method == "chain" else _squaring(array, n)


def _squaring(array: Array, n: int) -> Array:
    result, power = None, array
    while True:
        if n & 1:
            result = power if result is None else matmul(result, power)
        n >>= 1
        if not n:
            assert result is not None  # a positive n has a highest bit
            return result
        power = matmul(power, power)
