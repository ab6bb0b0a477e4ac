"""Products of vectors, of matrices and of other arrays."""

from __future__ import annotations

from math import prod as product
from typing import Any

from xbackend.api.functions.elementwise import multiply, subtract
from xbackend.api.functions.indexing import getitem
from xbackend.api.functions.manipulation import broadcast_to, expand_dims, permute_dims, reshape, stack
from xbackend.api.functions.reductions import sum
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import normalize_axis, operands
from xbackend.api.tracing.tracer import current
from xbackend.errors import ShapeError
from xbackend.program.shapes import broadcast_shapes


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
    """The sum of products along the axis, of the same length in both; other axes broadcast. Raises `ShapeError`."""
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
    """The sum of products over axes: the last ``axes`` of x1 with the first of x2, or two tuples of axes."""
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


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The cross products of vectors with three elements along the axis; the other axes broadcast."""
    tracer = current("xb.linalg.cross")
    a, b = operands("cross", tracer, x1, x2)
    leading = broadcast_shapes(a.shape, b.shape)
    number = normalize_axis(axis, len(leading))
    if leading[number] != 3 or any(x.shape[normalize_axis(axis, x.ndim)] != 3 for x in (a, b)):
        raise ShapeError(f"cross of shapes {a.shape} and {b.shape} along {axis}: vectors of three elements")
    a, b = (x if x.shape == leading else broadcast_to(x, leading) for x in (a, b))

    def part(x: Array, i: int) -> Array:
        return getitem(x, (*(slice(None),) * number, i))

    pairs = [((i + 1) % 3, (i + 2) % 3) for i in range(3)]
    each = [subtract(multiply(part(a, i), part(b, j)), multiply(part(a, j), part(b, i))) for i, j in pairs]
    return stack(each, axis=number)
