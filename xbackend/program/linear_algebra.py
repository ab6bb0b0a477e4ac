"""Rules of the op table for linear algebra, as in `xbackend.program.shapes`."""

from __future__ import annotations

from math import prod

from xbackend.errors import ShapeError
from xbackend.program.aval import Aval
from xbackend.program.shapes import Avals, Count, Params


def _square(name: str, aval: Aval) -> tuple[tuple[int, ...], int]:
    """Leading axes and number of rows of square matrices. Raises `ShapeError`."""
    shape = aval.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"{name} takes square matrices, not shape {shape}")
    return shape[:-2], shape[-1]


def _matrices(name: str, aval: Aval) -> tuple[tuple[int, ...], int, int]:
    """Leading axes, rows and columns. Raises `ShapeError`."""
    shape = aval.shape
    if len(shape) < 2:
        raise ShapeError(f"{name} takes matrices, not shape {shape}")
    return shape[:-2], shape[-2], shape[-1]


def _shaped(avals: Avals, *shapes: tuple[int, ...]) -> tuple[Aval, ...]:
    """Results of these shapes, with the dtype of the first input."""
    return tuple(Aval(shape, avals[0].dtype) for shape in shapes)


def same_matrices(name: str, avals: Avals, params: Params) -> Aval:
    """`cholesky`, `inv`."""
    _square(name, avals[0])
    return avals[0]


def determinant(name: str, avals: Avals, params: Params) -> Aval:
    """A number for each matrix."""
    leading, _ = _square(name, avals[0])
    return Aval(leading, avals[0].dtype)


def slogdet(name: str, avals: Avals, params: Params) -> tuple[Aval, ...]:
    """Sign, logarithm of the absolute value."""
    leading, _ = _square(name, avals[0])
    return _shaped(avals, leading, leading)


def equations(name: str, avals: Avals, params: Params) -> Aval:
    """`solve`, `solve_triangular`: matrices (..., n, n), right-hand sides (..., n, k)."""
    leading, n = _square(name, avals[0])
    if len(avals[0].shape) != len(avals[1].shape) or avals[1].shape[:-1] != (*leading, n):
        raise ShapeError(
            f"{name} of shapes {avals[0].shape} and {avals[1].shape}: ranks, leading axes and rows must be equal"
        )
    return avals[1]


def eigh(name: str, avals: Avals, params: Params) -> tuple[Aval, ...]:
    """Eigenvalues, eigenvectors."""
    leading, n = _square(name, avals[0])
    return _shaped(avals, (*leading, n), (*leading, n, n))


def eigvalsh(name: str, avals: Avals, params: Params) -> Aval:
    """Eigenvalues alone."""
    return eigh(name, avals, params)[0]


def svdvals(name: str, avals: Avals, params: Params) -> Aval:
    """Singular values alone."""
    leading, m, n = _matrices(name, avals[0])
    return Aval((*leading, min(m, n)), avals[0].dtype)


def qr(name: str, avals: Avals, params: Params) -> tuple[Aval, ...]:
    """Q, R."""
    leading, m, n = _matrices(name, avals[0])
    k = m if params["full"] else min(m, n)
    return _shaped(avals, (*leading, m, k), (*leading, k, n))


def svd(name: str, avals: Avals, params: Params) -> tuple[Aval, ...]:
    """U, the singular values, the transpose of V."""
    leading, m, n = _matrices(name, avals[0])
    k = min(m, n)
    left, right = (m, n) if params["full"] else (k, k)
    return _shaped(avals, (*leading, m, left), (*leading, k), (*leading, right, n))


def diagonal(name: str, avals: Avals, params: Params) -> Aval:
    """The elements of a diagonal of matrices."""
    leading, m, n = _matrices(name, avals[0])
    offset = params["offset"]
    length = max(min(m, n - offset) if offset >= 0 else min(m + offset, n), 0)
    return Aval((*leading, length), avals[0].dtype)


def cubic(numerator: int, denominator: int = 1) -> Count:
    """``numerator / denominator * n**3`` for each matrix of n rows (Golub and Van Loan, Matrix Computations, 4.2,
    3.2)."""

    def count(avals: Avals, out: Aval, params: Params) -> int:
        *leading, _, n = avals[0].shape
        return prod(leading) * numerator * n**3 // denominator

    return count


def substitution(avals: Avals, out: Aval, params: Params) -> int:
    """Forward or backward, for each right-hand side (Golub and Van Loan, 3.1)."""
    *leading, _, n = avals[0].shape
    return prod(leading) * n**2 * avals[1].shape[-1]


def elimination(avals: Avals, out: Aval, params: Params) -> int:
    """LU decomposition, and two substitutions for each right-hand side."""
    return cubic(2, 3)(avals, out, {}) + 2 * substitution(avals, out, params)
