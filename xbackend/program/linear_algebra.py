"""Rules of the op table for linear algebra, searching and convolution, as in `xbackend.program.shapes`."""

from __future__ import annotations

from math import prod

from xbackend.errors import ShapeError
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
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


def searchsorted(name: str, avals: Avals, params: Params) -> Aval:
    """Positions in a sorted vector."""
    if len(avals[0].shape) != 1:
        raise ShapeError(f"searchsorted looks in a vector, not in shape {avals[0].shape}")
    return Aval(avals[1].shape, DType.int64)


def conv2d(name: str, avals: Avals, params: Params) -> Aval:
    """Images (n, height, width, channels), kernels (height, width, channels, results); ``padding`` counts the rows of
    zeros above and below and the columns left and right."""
    (images, kernel), strides, padding = (a.shape for a in avals), params["strides"], params["padding"]
    if len(images) != 4 or len(kernel) != 4 or images[3] != kernel[2]:
        raise ShapeError(
            f"conv2d of shapes {images} and {kernel}: they are (n, height, width, channels) and (height, width, "
            "channels, results)"
        )
    if len(strides) != 2 or min(strides) < 1 or len(padding) != 4 or min(padding) < 0:
        raise ShapeError(f"conv2d with the strides {strides} and the padding {padding}")
    padded = images[1] + padding[0] + padding[1], images[2] + padding[2] + padding[3]
    if any(k == 0 or k > n for n, k in zip(padded, kernel[:2], strict=True)):
        raise ShapeError(f"conv2d of shapes {images} and {kernel}: the kernel has to fit into the padded image")
    lengths = ((n - k) // s + 1 for n, k, s in zip(padded, kernel[:2], strides, strict=True))
    return Aval((images[0], *lengths, kernel[3]), avals[0].dtype)


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


def comparisons(avals: Avals, out: Aval, params: Params) -> int:
    """n * log2(n) for each sorted vector."""
    n = avals[0].shape[params["axis"]]
    return avals[0].size * max(n - 1, 0).bit_length()


def halvings(avals: Avals, out: Aval, params: Params) -> int:
    """log2(n) for each searched number."""
    return avals[1].size * avals[0].size.bit_length()


def products(avals: Avals, out: Aval, params: Params) -> int:
    """A multiplication and an addition for each element of the kernel and of the result."""
    height, width, channels, _ = avals[1].shape
    return 2 * out.size * height * width * channels
