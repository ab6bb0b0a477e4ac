"""Products of vectors, of matrices and of other arrays; triangles and diagonals of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sized
from math import prod as product
from typing import Any

from xbackend.api.functions.creation import arange
from xbackend.api.functions.elementwise import greater_equal, less_equal, multiply, where
from xbackend.api.functions.indexing import getitem
from xbackend.api.functions.manipulation import expand_dims, permute_dims, reshape, stack
from xbackend.api.functions.reductions import sum
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import (
    broadcast,
    emitted,
    given,
    integer,
    normalize_axis,
    operands,
    reshaped,
    sequence,
)
from xbackend.errors import ShapeError, TraceError
from xbackend.program.dtypes import DType
from xbackend.program.shapes import broadcast_shapes


def matmul(x1: Any, x2: Any, /) -> Array:
    """The matrix product; leading axes broadcast, a vector counts as a row on the left and a column on the right.

    >>> xp.matmul(xp.asarray([[1.0, 2.0], [3.0, 4.0]]), xp.asarray([1.0, 1.0]))
    array([3., 7.], dtype=float64, device=cpu:0)
    """
    a, b = operands("matmul", x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: a number is no matrix; use *")
    left, right = a.ndim == 1, b.ndim == 1
    a = expand_dims(a, axis=0) if left else a
    b = expand_dims(b, axis=1) if right else b
    result = emitted("matmul", *stacks(a, b))
    rows, columns = () if left else (a.shape[-2],), () if right else (b.shape[-1],)
    return reshaped(result, (*result.shape[:-2], *rows, *columns))


def stacks(a: Array, b: Array) -> list[Array]:
    """Matrices with their leading axes broadcast. Raises `ShapeError`."""
    leading = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return [broadcast(m, (*leading, *m.shape[-2:])) for m in (a, b)]


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The sum of products along the axis, of the same length in both; other axes broadcast. Raises `ShapeError`.

    >>> xp.vecdot(xp.asarray([[1.0, 2.0], [3.0, 4.0]]), xp.asarray([1.0, 1.0]))
    array([3., 7.], dtype=float64, device=cpu:0)
    """
    a, b = operands("vecdot", x1, x2)
    lengths = [array.shape[normalize_axis(axis, array.ndim)] for array in (a, b)]
    if lengths[0] != lengths[1]:
        raise ShapeError(
            f"vecdot of shapes {a.shape} and {b.shape}: lengths {lengths[0]} and {lengths[1]} along {axis}"
        )
    return sum(a * b, axis=axis, dtype=a.dtype)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """The sum of products over axes: the last ``axes`` of x1 with the first of x2, or two tuples of axes.

    >>> xp.tensordot(xp.ones((2, 3, 4)), xp.ones((4, 3)), axes=((1, 2), (1, 0)))
    array([12., 12.], dtype=float64, device=cpu:0)
    """
    a, b = operands("tensordot", x1, x2)
    count = integer(axes)
    if count is not None and 0 <= count <= min(a.ndim, b.ndim):
        axes = (range(a.ndim - count, a.ndim), range(count))
    elif not isinstance(axes, Sized) or getattr(axes, "shape", None) == () or len(axes) != 2:
        raise ShapeError(
            f"tensordot of shapes {a.shape} and {b.shape} over axes {axes!r:.40}: how many axes, or those of each array"
        )
    over_a, over_b = (
        [normalize_axis(i, x.ndim) for i in sequence(own, "axes")] for x, own in zip((a, b), axes, strict=True)
    )
    if [a.shape[i] for i in over_a] != [b.shape[i] for i in over_b]:
        raise ShapeError(f"tensordot of shapes {a.shape} and {b.shape} over axes {over_a} and {over_b}: lengths differ")
    kept_a = [i for i in range(a.ndim) if i not in over_a]
    kept_b = [i for i in range(b.ndim) if i not in over_b]
    rows, columns = [a.shape[i] for i in kept_a], [b.shape[i] for i in kept_b]
    inner = product(a.shape[i] for i in over_a)
    left = reshape(permute_dims(a, kept_a + over_a), (product(rows), inner))
    right = reshape(permute_dims(b, over_b + kept_b), (inner, product(columns)))
    return reshape(matmul(left, right), (*rows, *columns))


def outer(x1: Any, x2: Any, /) -> Array:
    """The matrix of all products of two vectors.

    >>> xp.linalg.outer(xp.asarray([1, 2]), xp.asarray([3, 4]))
    array([[3, 4],
           [6, 8]], dtype=int64, device=cpu:0)
    """
    a, b = given("linalg.outer", x1), given("linalg.outer", x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer takes two vectors, not shapes {a.shape} and {b.shape}")
    return multiply(a[:, None], b[None, :])


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The cross products of vectors with three elements along the axis; the other axes broadcast.

    >>> xp.linalg.cross(xp.asarray([1.0, 0.0, 0.0]), xp.asarray([0.0, 1.0, 0.0]))
    array([0., 0., 1.], dtype=float64, device=cpu:0)
    """
    a, b = operands("linalg.cross", x1, x2)
    leading = broadcast_shapes(a.shape, b.shape)
    number = normalize_axis(axis, len(leading))
    if leading[number] != 3 or any(x.shape[normalize_axis(axis, x.ndim)] != 3 for x in (a, b)):
        raise ShapeError(f"cross of shapes {a.shape} and {b.shape} along {axis}: vectors of three elements")
    a, b = (broadcast(x, leading) for x in (a, b))

    def part(x: Array, i: int) -> Array:
        return getitem(x, (*(slice(None),) * number, i))

    pairs = [((i + 1) % 3, (i + 2) % 3) for i in range(3)]
    return stack([part(a, i) * part(b, j) - part(a, j) * part(b, i) for i, j in pairs], axis=number)


def _offset(name: str, k: Any) -> int:
    number = integer(k)
    if number is None:
        raise TraceError(f"{name} of the diagonal {k!r:.40}: it is an integer known while tracing")
    return number


def _triangle(name: str, kept: Callable[[Any, Any], Array], x: Any, k: int) -> Array:
    array, offset = given(name, x), _offset(name, k)
    if array.ndim < 2:
        raise ShapeError(f"{name} takes matrices, not shape {array.shape}")
    rows, columns = (arange(n, dtype=DType.int64) for n in array.shape[-2:])
    zero = False if array.dtype is DType.bool else 0
    return where(kept(columns, (rows + offset)[:, None]), array, zero)


def tril(x: Any, /, *, k: int = 0) -> Array:
    """Matrices with zeros above the k-th diagonal.

    >>> xp.tril(xp.ones((2, 2)))
    array([[1., 0.],
           [1., 1.]], dtype=float64, device=cpu:0)
    """
    return _triangle("tril", less_equal, x, k)


def triu(x: Any, /, *, k: int = 0) -> Array:
    """Matrices with zeros below the k-th diagonal.

    >>> xp.triu(xp.ones((2, 2)), k=1)
    array([[0., 1.],
           [0., 0.]], dtype=float64, device=cpu:0)
    """
    return _triangle("triu", greater_equal, x, k)


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonal of matrices, or the one ``offset`` places above (> 0) or below (< 0) it.

    >>> xp.linalg.diagonal(xp.asarray([[1, 2], [3, 4]]))
    array([1, 4], dtype=int64, device=cpu:0)
    """
    return emitted("diagonal", given("linalg.diagonal", x), offset=_offset("diagonal", offset))


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of a `diagonal`. Integers give int64 unless ``dtype`` says otherwise.

    >>> int(xp.linalg.trace(xp.asarray([[1, 2], [3, 4]])))
    5
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)
