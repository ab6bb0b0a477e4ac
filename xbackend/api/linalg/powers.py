"""Powers of matrices."""

from __future__ import annotations

from functools import reduce
from typing import Any

from xbackend.api.functions.creation import eye
from xbackend.api.functions.manipulation import broadcast_to
from xbackend.api.functions.products import matmul
from xbackend.api.linalg.factorizations import inv
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import copied, integer
from xbackend.api.tracing.tracer import current
from xbackend.errors import ShapeError, TraceError

LONGEST_CHAIN = 100_000


def matrix_power(x: Any, n: int, /, *, method: str = "squaring") -> Array:
    """The n-th power of square matrices (..., m, m), numeric. A negative n is a power of the inverse, of floating-point
    matrices only.

    ``method="squaring"`` takes at most 2*log2(n) products (binary powering, Knuth, TAOCP vol. 2, 4.6.3, algorithm A),
    ``method="chain"`` multiplies n-1 times, as benchmarks of devices do. Raises `ShapeError` for other matrices,
    `DTypeError` for inverses of integers, `TraceError` for an ``n`` that is no integer or too large for the method.
    """
    array = current("xb.linalg.matrix_power").array(x)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"matrix_power takes square matrices, not shape {array.shape}")
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
