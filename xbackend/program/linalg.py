"""``xbackend.linalg``: products of matrices beyond ``matmul``."""

from __future__ import annotations

from typing import Any

from xbackend.errors import ShapeError, TraceError
from xbackend.program.array import Array
from xbackend.program.functions import broadcast_to, eye, matmul, matrix_transpose, tensordot, vecdot
from xbackend.program.tracing import current

__all__ = ["matmul", "matrix_power", "matrix_transpose", "outer", "tensordot", "vecdot"]

LONGEST_CHAIN = 100_000


def outer(x1: Any, x2: Any, /) -> Array:
    """The matrix of all products of two vectors."""
    tracer = current("xb.linalg.outer")
    a, b = tracer.array(x1), tracer.array(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer takes two vectors, not shapes {a.shape} and {b.shape}")
    return a[:, None] * b[None, :]


def matrix_power(x: Any, n: int, /, *, method: str = "squaring") -> Array:
    """The n-th power (n >= 0) of a square matrix, or of each in a stack of them: shape (..., m, m), numeric.

    ``method="squaring"`` takes at most 2*log2(n) products (binary powering, Knuth, TAOCP vol. 2, 4.6.3, algorithm A),
    ``method="chain"`` multiplies n-1 times, as benchmarks of devices do. Raises `ShapeError` for matrices that are not
    square and `TraceError` for an ``n`` that is negative, no integer, or too large for the method.
    """
    array = current("xb.linalg.matrix_power").array(x)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"matrix_power takes square matrices, not shape {array.shape}")
    if isinstance(n, bool) or not isinstance(n, int):
        raise TraceError(f"matrix_power to the power {n!r}: the exponent is an integer known while tracing")
    if n < 0:
        raise TraceError(f"matrix_power to the power {n}: inverses are not provided; the exponent is 0 or more")
    if method == "chain":
        if n > LONGEST_CHAIN:
            raise TraceError(f"matrix_power to the power {n} by chain takes {n - 1} products; use method='squaring'")
    elif method != "squaring":
        raise TraceError(f"matrix_power has the methods 'chain' and 'squaring', not {method!r}")
    elif n >= 2**63:
        raise TraceError(f"matrix_power to the power {n}: exponents reach up to 2**63 - 1")
    if n == 0:
        return broadcast_to(eye(array.shape[-1], dtype=array.dtype), array.shape)
    return _chain(array, n) if method == "chain" else _squaring(array, n)


def _chain(array: Array, n: int) -> Array:
    result = array
    for _ in range(n - 1):
        result = matmul(result, array)
    return result


def _squaring(array: Array, n: int) -> Array:
    result, power = None, array
    while True:
        if n & 1:
            result = power if result is None else matmul(result, power)
        n >>= 1
        if not n:
            assert result is not None  # n was positive, so its highest bit was met
            return result
        power = matmul(power, power)
