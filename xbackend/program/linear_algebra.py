"""Shapes of linear algebra, sorting and convolution, and how many operations they take: rules of the op table.

A rule takes what is known of the inputs (`Aval`) and the parameters, and gives what is known of the result. An op of
several results is a node for each that is wanted, with the number of it as the parameter ``part``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xbackend.errors import ShapeError
from xbackend.program.dtypes import DType

Infer = Callable[[Sequence[Any], Mapping[str, Any]], Any]
Count = Callable[[Sequence[Any], Any, Mapping[str, Any]], int]

# How many results the ops have that have several.
RESULTS: Mapping[str, int] = {"slogdet": 2, "eigh": 2, "qr": 2, "svd": 3}


def _square(name: str, aval: Any) -> tuple[tuple[int, ...], int]:
    """Leading axes, and rows of square matrices. Raises `ShapeError`."""
    shape = aval.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"{name} takes square matrices, not shape {shape}")
    return shape[:-2], shape[-1]


def _matrices(name: str, aval: Any) -> tuple[tuple[int, ...], int, int]:
    """Leading axes, rows and columns. Raises `ShapeError`."""
    shape = aval.shape
    if len(shape) < 2:
        raise ShapeError(f"{name} takes matrices, not shape {shape}")
    return shape[:-2], shape[-2], shape[-1]


def _part(name: str, params: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of the result that is wanted. Raises `ShapeError`."""
    if not 0 <= params["part"] < len(shapes):
        raise ShapeError(f"{name} has {len(shapes)} results, and none of number {params['part']}")
    part: int = params["part"]
    return shapes[part]


def same_matrices(name: str) -> Infer:
    """One result of the input's shape: `cholesky`, `inv`."""

    def infer(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
        _square(name, avals[0])
        return avals[0]

    return infer


def determinant(name: str) -> Infer:
    """`det`, and the sign and the logarithm of `slogdet`: a number for each matrix."""

    def infer(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
        leading, _ = _square(name, avals[0])
        return avals[0]._replace(shape=_part(name, {"part": 0, **params}, [leading] * 2))

    return infer


def equations(name: str) -> Infer:
    """`solve`, `solve_triangular`: matrices with as many right-hand sides as they have columns."""

    def infer(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
        leading, n = _square(name, avals[0])
        if len(avals[0].shape) != len(avals[1].shape) or avals[1].shape[:-1] != (*leading, n):
            raise ShapeError(
                f"{name} of shapes {avals[0].shape} and {avals[1].shape}: ranks, leading axes and rows must be equal"
            )
        return avals[1]

    return infer


def eigh(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Eigenvalues, eigenvectors."""
    leading, n = _square("eigh", avals[0])
    return avals[0]._replace(shape=_part("eigh", params, [(*leading, n), (*leading, n, n)]))


def eigvalsh(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Eigenvalues alone."""
    return eigh(avals, {"part": 0})


def svdvals(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Singular values alone."""
    leading, m, n = _matrices("svdvals", avals[0])
    return avals[0]._replace(shape=(*leading, min(m, n)))


def qr(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Q, R."""
    leading, m, n = _matrices("qr", avals[0])
    k = m if params["full"] else min(m, n)
    return avals[0]._replace(shape=_part("qr", params, [(*leading, m, k), (*leading, k, n)]))


def svd(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """U, the singular values, the transpose of V."""
    leading, m, n = _matrices("svd", avals[0])
    k = min(m, n)
    left, right = (m, n) if params["full"] else (k, k)
    return avals[0]._replace(shape=_part("svd", params, [(*leading, m, left), (*leading, k), (*leading, right, n)]))


def diagonal(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """The elements of a diagonal of matrices."""
    leading, m, n = _matrices("diagonal", avals[0])
    offset = params["offset"]
    length = max(min(m, n - offset) if offset >= 0 else min(m + offset, n), 0)
    return avals[0]._replace(shape=(*leading, length))


def along_axis(name: str, dtype: DType | None = None) -> Infer:
    """What an axis is put into another order by: `sort`, `argsort`; and `cumulative_prod`."""

    def infer(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
        if not 0 <= params["axis"] < len(avals[0].shape):
            raise ShapeError(f"{name} along axis {params['axis']} of shape {avals[0].shape}")
        return avals[0] if dtype is None else avals[0]._replace(dtype=dtype)

    return infer


def searchsorted(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Positions in a sorted vector."""
    if len(avals[0].shape) != 1:
        raise ShapeError(f"searchsorted looks in a vector, not in shape {avals[0].shape}")
    return avals[1]._replace(dtype=DType.int64)


def conv2d(avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Images (n, height, width, channels) with kernels (height, width, channels, results); ``padding`` is how many rows
    of zeros stand above and below, and how many columns left and right."""
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
    return avals[0]._replace(shape=(images[0], *lengths, kernel[3]))


def _many(aval: Any, core: int) -> int:
    """How many matrices, or vectors, there are in a stack."""
    count = 1
    for n in aval.shape[: len(aval.shape) - core]:
        count *= n
    return count


def cubic(numerator: int, denominator: int = 1) -> Count:
    """So many times the number of rows to the third power, for each matrix (Golub and Van Loan, Matrix Computations,
    4.2, 3.2)."""

    def count(avals: Sequence[Any], out: Any, params: Mapping[str, Any]) -> int:
        n = avals[0].shape[-1]
        return int(_many(avals[0], 2) * numerator * n**3 // denominator)

    return count


def substitution(avals: Sequence[Any], out: Any, params: Mapping[str, Any]) -> int:
    """Forward or backward, for each right-hand side (Golub and Van Loan, 3.1)."""
    return int(_many(avals[0], 2) * avals[0].shape[-1] ** 2 * avals[1].shape[-1])


def elimination(avals: Sequence[Any], out: Any, params: Mapping[str, Any]) -> int:
    """LU decomposition, and two substitutions for each right-hand side."""
    return cubic(2, 3)(avals, out, {}) + 2 * substitution(avals, out, params)


def comparisons(avals: Sequence[Any], out: Any, params: Mapping[str, Any]) -> int:
    """n * log2(n) for each vector that is sorted."""
    n = avals[0].shape[params["axis"]]
    return int(avals[0].size * max(n - 1, 0).bit_length())


def halvings(avals: Sequence[Any], out: Any, params: Mapping[str, Any]) -> int:
    """log2(n) for each number that is looked for."""
    return int(avals[1].size * avals[0].size.bit_length())


def products(avals: Sequence[Any], out: Any, params: Mapping[str, Any]) -> int:
    """A multiplication and an addition for each element of the kernel and of the result."""
    height, width, channels, _ = avals[1].shape
    return int(2 * out.size * height * width * channels)
