"""``xbackend.linalg``: products of matrices."""

from __future__ import annotations

from functools import reduce
from math import prod as product
from typing import Any

from xbackend.api.array import Array
from xbackend.api.casting import copied, integer, normalize_axis, operands
from xbackend.api.creation import eye
from xbackend.api.elementwise import multiply
from xbackend.api.manipulation import broadcast_to, expand_dims, matrix_transpose, permute_dims, reshape
from xbackend.api.reductions import sum
from xbackend.api.tracer import current
from xbackend.errors import ShapeError, TraceError
from xbackend.program.ops import broadcast_shapes

__all__ = ["matmul", "matrix_power", "matrix_transpose", "outer", "tensordot", "vecdot"]

LONGEST_CHAIN = 100_000


def matmul(x1: Any, x2: Any, /) -> Array:
    """The matrix product; leading axes broadcast, a vector counts as a row on the left and a column on the right."""
    tracer = current("xb.matmul")
    a, b = operands("matmul", tracer, x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: a number is no matrix; use *")
    left, right = a.ndim == 1, b.ndim == 1
    a = expand_dims(a, axis=0) if left else a
    b = expand_dims(b, axis=1) if right else b
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: {a.shape[-1]} columns, {b.shape[-2]} rows")
    leading = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    stacks = [m if m.shape[:-2] == leading else broadcast_to(m, (*leading, *m.shape[-2:])) for m in (a, b)]
    result = tracer.emit("matmul", stacks, {})
    if left or right:
        rows, columns = () if left else (a.shape[-2],), () if right else (b.shape[-1],)
        result = reshape(result, (*leading, *rows, *columns))
    return result


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The sum of products along the axis, whose length both have; the other axes broadcast. Raises `ShapeError`."""
    tracer = current("xb.vecdot")
    a, b = operands("vecdot", tracer, x1, x2)
    lengths = [array.shape[normalize_axis(axis, array.ndim)] for array in (a, b)]
    if lengths[0] != lengths[1]:
        raise ShapeError(
            f"vecdot of shapes {a.shape} and {b.shape}: lengths {lengths[0]} and {lengths[1]} along {axis}"
        )
    products = multiply(a, b)
    return sum(products, axis=axis, dtype=products.dtype)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """The sum of products over the axes: a number of them (last of the first, first of the second) or two tuples."""
    tracer = current("xb.tensordot")
    a, b = operands("tensordot", tracer, x1, x2)
    if isinstance(axes, int):
        axes = (tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes)))
    over_a = [normalize_axis(i, a.ndim) for i in axes[0]]
    over_b = [normalize_axis(i, b.ndim) for i in axes[1]]
    if [a.shape[i] for i in over_a] != [b.shape[i] for i in over_b]:
        raise ShapeError(f"tensordot of shapes {a.shape} and {b.shape} over axes {axes}: lengths differ")
    kept_a = [i for i in range(a.ndim) if i not in over_a]
    kept_b = [i for i in range(b.ndim) if i not in over_b]
    rows, columns = [a.shape[i] for i in kept_a], [b.shape[i] for i in kept_b]
    inner = product(a.shape[i] for i in over_a)
    left = reshape(permute_dims(a, kept_a + over_a), (product(rows), inner))
    right = reshape(permute_dims(b, over_b + kept_b), (inner, product(columns)))
    return reshape(matmul(left, right), (*rows, *columns))


def outer(x1: Any, x2: Any, /) -> Array:
    """The matrix of all products of two vectors."""
    tracer = current("xb.linalg.outer")
    a, b = tracer.array(x1), tracer.array(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer takes two vectors, not shapes {a.shape} and {b.shape}")
    return multiply(a[:, None], b[None, :])


def matrix_power(x: Any, n: int, /, *, method: str = "squaring") -> Array:
    """The n-th power (n >= 0) of a square matrix, or of each in a stack of them: shape (..., m, m), numeric.

    ``method="squaring"`` takes at most 2*log2(n) products (binary powering, Knuth, TAOCP vol. 2, 4.6.3, algorithm A),
    ``method="chain"`` multiplies n-1 times, as benchmarks of devices do. Raises `ShapeError` for matrices that are not
    square and `TraceError` for an ``n`` that is negative, no integer, or too large for the method.
    """
    array = current("xb.linalg.matrix_power").array(x)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ShapeError(f"matrix_power takes square matrices, not shape {array.shape}")
    exponent = integer(n)
    if exponent is None:
        raise TraceError(f"matrix_power to the power {n!r:.60}: the exponent is an integer known while tracing")
    n = exponent
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
            assert result is not None  # n was positive, so its highest bit was met
            return result
        power = matmul(power, power)
