"""The op set lowered to a framework of the Theano lineage: functions of the framework's tensor module ``T``. A
generation or mode that differs overrides a row (`LineageBackend.rows`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import copysign, prod
from typing import Any

import numpy as np

from xbackend.backends.lineage import linear_algebra
from xbackend.backends.lineage.convolution import conv2d
from xbackend.backends.lineage.division import power, power_by_squaring, quotient, remainder, sign
from xbackend.backends.lineage.shapes import lengths
from xbackend.backends.lineage.special import digamma
from xbackend.backends.numpy.ops import ARC_NAMES, index, slices
from xbackend.backends.rows import LoweringRow, Rows
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.program import Node, generate

# Ops with the standard's name and its meaning on our dtypes; then ops with other names.
_SAME = (
    *("square", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("floor", "ceil", "trunc", "erf", "erfc", "erfinv", "gammaln", "isnan", "isinf", "add", "maximum", "minimum"),
)
_OTHERS = {
    **ARC_NAMES,
    "digamma": "psi",
    "negative": "neg",
    "logical_not": "invert",
    "subtract": "sub",
    "multiply": "mul",
    "equal": "eq",
    "not_equal": "neq",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "logical_and": "and_",
    "logical_or": "or_",
    "logical_xor": "xor",
    "bitwise_invert": "invert",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
    "where": "switch",
}


def joined(T: Any, arrays: Sequence[Any], axis: int = 0) -> Any:
    """``stack`` without its op for numbers (MakeVector), which runs on the host."""
    return T.concatenate([x.dimshuffle(*range(axis), "x", *range(axis, x.ndim)) for x in arrays], axis=axis)


def _named(name: str, *older: str) -> LoweringRow:
    """The op of that name, or of the first of its older names that this generation has."""
    return lambda T, node, inputs: getattr(T, next(n for n in (name, *older) if hasattr(T, n)))(*inputs)


def wide_reduction(name: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Reductions of float32 for Aesara's Numba mode, which accumulates in that: the mean of four million numbers was
    off by 4 % (aesara/link/numba/dispatch/elemwise.py, numba_funcify_CAReduce)."""
    axes = tuple(node.params["axis"])
    if node.dtype is not DType.float32 or not axes:
        return TABLE[name](T, node, inputs)
    return T.cast(getattr(T, name)(inputs[0], axis=axes, dtype="float64"), "float32")


def wide_running(name: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Running sums or products of int32 for PyTensor's Numba mode, where those of a vector are int64
    (pytensor/link/numba/dispatch/extra_ops.py, numba_funcify_CumOp)."""
    if node.dtype is not DType.int32:
        return TABLE[name](T, node, inputs)
    return T.cast(TABLE[name](T, node, [T.cast(inputs[0], "int64")]), "int32")


def _along_axis(name: str) -> LoweringRow:
    return lambda T, node, inputs: getattr(T, name)(inputs[0], axis=node.params["axis"])


def _least(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """The lineage's min is the negative of the max of negatives; the smallest integer has none, but a complement."""
    if not node.dtype.is_integer or not node.params["axis"]:
        return _reduction("min", T, node, inputs)
    return T.invert(_reduction("max", T, node, [T.invert(inputs[0])]))


def _reduction(name: str, T: Any, node: Node, inputs: Sequence[Any], *, typed: bool = False) -> Any:
    axes = tuple(node.params["axis"])
    options = {"dtype": node.dtype.value} if typed else {}  # integers would be widened to int64 without a word
    return getattr(T, name)(inputs[0], axis=axes, **options) if axes else inputs[0]


def cumulative_rows(name: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Running sums or products along the rows of a matrix, for Aesara's Numba mode, which fails for vectors and mixes
    the axes of higher ranks up (aesara/link/numba/dispatch/extra_ops.py, numba_funcify_CumOp)."""
    axis, rank = node.params["axis"], len(node.shape)
    order = [*(a for a in range(rank) if a != axis), axis]
    moved = tuple(node.shape[a] for a in order)
    rows = T.reshape(inputs[0].dimshuffle(*order), (prod(moved[:-1]), moved[-1]), ndim=2)
    along = T.reshape(getattr(T, name)(rows, axis=1), moved, ndim=rank)
    return along.dimshuffle(*[order.index(a) for a in range(rank)])


def _argmin(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Argmax of the negative, as the lineage's own; for integers of the complement, which the smallest one has."""
    (x,) = inputs
    return T.argmax(T.invert(x) if "int" in x.dtype else T.neg(x), axis=node.params["axis"])


def _reshape(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Axes of length 1 are added and dropped by ``dimshuffle``, which rewrites see through."""
    x = inputs[0]
    order = _order(tuple(x.type.broadcastable), lengths(x), node.shape)
    return T.reshape(x, node.shape, ndim=len(node.shape)) if order is None else _shuffled(x, order)


def _shuffled(x: Any, order: Sequence[Any]) -> Any:
    """``dimshuffle``, merged with an earlier one: in bodies of Aesara's loops for Numba each would be computed."""
    if is_shuffled(x):
        order = [a if a == "x" else x.owner.op.new_order[a] for a in order]
        x = x.owner.inputs[0]
    return x if list(order) == list(range(x.ndim)) else x.dimshuffle(*order)


def _order(ones: tuple[bool, ...], before: tuple[int, ...], after: tuple[int, ...]) -> list[int | str] | None:
    """The axes after a reshape by their place before, ``x`` for a new one; `None` if the type (``ones``) tells no
    order."""
    kept = [axis for axis, one in enumerate(ones) if not one]
    if [before[axis] for axis in kept] != [n for n in after if n != 1]:
        return None
    axes = iter(kept)
    return ["x" if n == 1 else next(axes) for n in after]


def _matmul(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    a, b = inputs
    if len(node.shape) == 2:
        # Aesara's Numba mode multiplies vectors of integers as floats (link/numba/dispatch/basic.py: Dot).
        return T.dot(a, b) if node.dtype.is_integer else dot(T, a, b)
    if node.dtype.is_integer:
        # BatchedDot takes floating point only (tensor/blas.py: c_code), Aesara's Numba mode has no sums of int32.
        return T.cast(sum_of_products(T, T.cast(a, "int64"), T.cast(b, "int64"), "int64"), node.dtype.value)
    batch = prod(node.shape[:-2])
    rows, columns, inner = node.shape[-2], node.shape[-1], lengths(a)[-1]
    product = T.batched_dot(T.reshape(a, (batch, rows, inner)), T.reshape(b, (batch, inner, columns)))
    return T.reshape(product, node.shape, ndim=len(node.shape))


def dot(T: Any, a: Any, b: Any) -> Any:
    """The product of two matrices. A vector that was made a row or a column stays a vector, as users write it."""
    row, column = _is_vector(a, "x", 0), _is_vector(b, 0, "x")
    product = T.dot(a.owner.inputs[0] if row else a, b.owner.inputs[0] if column else b)
    return product.dimshuffle("x" if row else 0, "x" if column else product.ndim - 1) if row or column else product


def _is_vector(matrix: Any, *order: Any) -> bool:
    """Whether a matrix is the ``dimshuffle`` of a vector in that order. A matrix with one column has one, too."""
    return is_shuffled(matrix) and tuple(matrix.owner.op.new_order) == order and matrix.owner.inputs[0].ndim == 1


def is_shuffled(variable: Any) -> bool:
    """Whether a variable is another one's ``dimshuffle``."""
    return hasattr(getattr(variable.owner, "op", None), "new_order")


def behind(variable: Any) -> Any:
    """The variable before all ``dimshuffle``; the variable itself if it is none."""
    while is_shuffled(variable):
        variable = variable.owner.inputs[0]
    return variable


def sum_of_products(T: Any, a: Any, b: Any, dtype: str) -> Any:
    """The product of matrices, or of stacks of matrices, as a sum of products of elements."""
    rank = a.ndim
    lead = range(rank - 2)
    left, right = a.dimshuffle(*lead, rank - 2, rank - 1, "x"), b.dimshuffle(*lead, "x", rank - 2, rank - 1)
    return T.sum(T.mul(left, right), axis=rank - 1, dtype=dtype)


def _broadcast_to(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    return inputs[0] if lengths(inputs[0]) == node.shape else T.alloc(inputs[0], *node.shape)


def _astype(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    x = inputs[0]
    if node.dtype is DType.bool and x.dtype != "bool":
        return T.neq(x, T.zeros((), dtype=x.dtype))
    return T.cast(x, node.dtype.value)


def is_filled(node: Node) -> bool:
    """Whether a generator is an `Alloc` of one number. PyTensor's C code clears the memory for -0.0, so it is none."""
    value = node.params.get("fill_value")
    return node.op == "full" and not (value == 0 and copysign(1.0, value) < 0)


def _full(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    if not is_filled(node):
        return _constant(T, node, inputs)
    value = T.constant(node.params["fill_value"], dtype=node.dtype.value)
    return T.alloc(value, *node.shape) if node.shape else value


def pick(comparison: str, otherwise: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Maximum or minimum for C linkers, which compare integers as doubles (scalar/basic.py, ScalarMaximum.c_code)."""
    x, y = inputs
    return T.switch(getattr(T, comparison)(x, y), x, y) if node.dtype.is_integer else getattr(T, otherwise)(x, y)


def best(name: str, position: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Max or min of integers by position: the C linkers' loop compares doubles, as in `pick`, and rounds int64."""
    axes = tuple(node.params["axis"])
    if not node.dtype.is_integer or not axes:
        return TABLE[name](T, node, inputs)
    x, shape = inputs[0], lengths(inputs[0])
    kept = [a for a in range(len(shape)) if a not in axes]
    rows = T.reshape(x.dimshuffle(*kept, *axes), (prod(node.shape), prod(shape[a] for a in axes)), ndim=2)
    found = (Aval((prod(node.shape),), DType.int64),)
    first = TABLE[position](T, Node(position, (), {"axis": 1}, found, ()), [rows])
    return T.reshape(rows[T.arange(prod(node.shape)), first], node.shape, ndim=len(node.shape))


# The C code that writes rows has no booleans (``unsupported type for a``, tensor/subtensor.py): they are bytes there.
BYTES: Mapping[DType, str] = {DType.bool: "int8"}


def written_as(name: str, T: Any, node: Node, inputs: Sequence[Any], *, carried: Mapping[DType, str] = BYTES) -> Any:
    """A row of an op that writes at indices, with some dtypes ``carried`` by others."""
    dtype = carried.get(node.dtype)
    if dtype is None:
        return TABLE[name](T, node, inputs)
    x, indices, value = inputs
    others = [T.cast(x, dtype), indices, T.cast(value, dtype)]
    for one, other in zip(others, inputs, strict=True):
        one.tag.lengths = getattr(other.tag, "lengths", None)
    return T.cast(TABLE[name](T, node, others), node.dtype.value)


def nan_aware(name: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Max or min for Numba, whose loop loses a NaN (link/numba/dispatch/elemwise.py:
    scalar_in_place_fn_ScalarMaximum)."""
    plain = TABLE[name](T, node, inputs)
    axes = tuple(node.params["axis"])
    if not axes or node.dtype.is_integer:
        return plain
    return T.switch(T.any(T.isnan(inputs[0]), axis=axes), T.constant(float("nan"), dtype=node.dtype.value), plain)


def _first(x: Any, axis: int, rank: int = 1) -> Any:
    """The array with ``rank`` axes, from ``axis`` on, moved to the front."""
    moved = range(axis, axis + rank)
    return x if axis == 0 else x.dimshuffle(*moved, *(a for a in range(x.ndim) if a not in moved))


def _back(x: Any, axis: int, rank: int = 1) -> Any:
    return x if axis == 0 else x.dimshuffle(*range(rank, rank + axis), *range(rank), *range(rank + axis, x.ndim))


def _take(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Rows by a vector of indices, which every linker has: other axes are moved, other ranks flattened."""
    x, indices = inputs
    axis, shape = node.params["axis"], lengths(x)
    rows = _first(x, axis)[T.reshape(indices, (prod(lengths(indices)),), ndim=1)]
    beside = (*shape[:axis], *shape[axis + 1 :])
    return _back(T.reshape(rows, (*lengths(indices), *beside), ndim=len(node.shape)), axis, len(lengths(indices)))


def _slice_add(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """``inc_subtensor``; for a single number a sum, as Numba and OpenCL have none without an index."""
    return T.inc_subtensor(inputs[0][slices(node.params)], inputs[1]) if node.shape else T.add(*inputs)


def _write(name: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """``set_subtensor`` or ``inc_subtensor`` of the elements that `_take` reads."""
    x, indices, value = inputs
    axis, count = node.params["axis"], prod(lengths(indices))
    rows, front = _first(x, axis), _first(value, axis, len(lengths(indices)))
    beside = (*node.shape[:axis], *node.shape[axis + 1 :])
    values = T.reshape(front, (count, *beside), ndim=len(node.shape))
    places = rows[T.reshape(indices, (count,), ndim=1)]
    return _back(getattr(T, name)(places, values), axis)


def _along(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Elements by their positions in the flat array."""
    x, indices = inputs
    axis, shape, wanted = node.params["axis"], lengths(x), lengths(indices)
    grid = np.ogrid[tuple(slice(n) for n in wanted)]
    step = [prod(shape[a + 1 :]) for a in range(len(shape))]
    beside = sum((np.asarray(grid[a] * step[a]) for a in range(len(shape)) if a != axis), np.zeros((1,) * len(shape)))
    there = T.switch(T.lt(indices, 0), T.add(indices, shape[axis]), indices)
    positions = T.add(T.mul(T.cast(there, "int64"), step[axis]), T.constant(beside.astype("int64")))
    flat = T.reshape(x, (prod(shape),), ndim=1)
    return T.reshape(flat[T.reshape(positions, (prod(wanted),), ndim=1)], wanted, ndim=len(wanted))


def _sorting(name: str, kind: str) -> LoweringRow:
    """``kind``: NumPy's name of an algorithm that the linker knows, for `argsort` a stable one."""
    return lambda T, node, inputs: getattr(T, name)(inputs[0], node.params["axis"], kind)


def _constant(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    return T.constant(generate(node), dtype=node.dtype.value)


TABLE = Rows(
    "the Theano lineage",
    {
        **{name: _named(name) for name in _SAME},
        **{name: _named(theirs) for name, theirs in _OTHERS.items()},
        "abs": _named("abs", "abs_"),
        "expit": lambda T, node, inputs: (T if hasattr(T, "sigmoid") else T.nnet).sigmoid(inputs[0]),
        "sign": sign,
        "divide": _named("true_divide", "true_div"),
        "floor_divide": quotient,
        "remainder": remainder,
        "pow": power,
        "isfinite": lambda T, node, inputs: T.invert(T.or_(T.isnan(inputs[0]), T.isinf(inputs[0]))),
        "round": lambda T, node, inputs: T.round(inputs[0], mode="half_to_even"),
        **{name: partial(_reduction, name, typed=True) for name in ("sum", "prod", "mean")},
        **{name: partial(_reduction, name) for name in ("max", "any", "all")},
        "min": _least,
        "argmax": _along_axis("argmax"),
        "argmin": _argmin,
        "cumulative_sum": _along_axis("cumsum"),
        "cumulative_prod": _along_axis("cumprod"),
        "sort": _sorting("sort", "quicksort"),
        "argsort": _sorting("argsort", "stable"),
        "searchsorted": lambda T, node, inputs: T.extra_ops.searchsorted(
            *inputs, side="right" if node.params["right"] else "left"
        ),
        "conv2d": conv2d,
        "matmul": _matmul,
        "reshape": _reshape,
        "permute_dims": lambda T, node, inputs: _shuffled(inputs[0], node.params["axes"]),
        "broadcast_to": _broadcast_to,
        "concat": lambda T, node, inputs: T.concatenate(list(inputs), axis=node.params["axis"]),
        "stack": lambda T, node, inputs: T.stack(list(inputs), axis=node.params["axis"]),
        "slice": lambda T, node, inputs: inputs[0][index(node.params)],
        "take": _take,
        "take_along_axis": _along,
        "slice_set": lambda T, node, inputs: T.set_subtensor(inputs[0][slices(node.params)], inputs[1]),
        "slice_add": _slice_add,
        "take_set": partial(_write, "set_subtensor"),
        "take_add": partial(_write, "inc_subtensor"),
        "astype": _astype,
        **linear_algebra.ROWS,
        "full": _full,
        **dict.fromkeys(("constant", "arange", "eye"), _constant),
    },
)
"""One row per op; `input`, `shared`, `transfer` and `grad` belong to the graph (`lineage.adapter`), loops and choices
to `control_flow`."""

C_ROWS: Mapping[str, LoweringRow] = {
    "sign": _named("sign", "sgn"),
    "floor_divide": partial(quotient, negates=True),
    "remainder": partial(remainder, negates=True),
    "pow": power_by_squaring,
    "maximum": partial(pick, "ge", "maximum"),
    "minimum": partial(pick, "le", "minimum"),
    "max": partial(best, "max", "argmax"),
    "min": partial(best, "min", "argmin"),
    "digamma": digamma,
}
NUMBA_ROWS: Mapping[str, LoweringRow] = {
    "max": partial(nan_aware, "max"),
    "min": partial(nan_aware, "min"),
    "argsort": _sorting("argsort", "mergesort"),
}
