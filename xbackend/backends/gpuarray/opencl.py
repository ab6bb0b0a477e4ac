"""Ops that Theano lacks for OpenCL, composed of others: its own would run on the host (theano/gpuarray/opt.py:
local_gpua_careduce; reduction.py and extra_ops.py are for CUDA only)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from xbackend.backends.lineage import linear_algebra
from xbackend.backends.lineage.division import floor_of_quotient, power_by_squaring
from xbackend.backends.lineage.ops import TABLE, lengths, sum_of_products
from xbackend.backends.rows import LoweringRow
from xbackend.errors import UnsupportedOperation
from xbackend.program.program import Node

# Above this number of products of elements the op is left to the host, which a strict placement refuses.
MOST_PRODUCTS = 2**24


def _halves(T: Any, values: Sequence[Any], length: int, combine: Callable[..., Sequence[Any]]) -> Sequence[Any]:
    """Reduce the first axis of the values from ``length`` to 1: combine its halves, repeatedly."""
    while length > 1:
        half = length // 2
        folded = combine(*[v[:half] for v in values], *[v[half : 2 * half] for v in values])
        if length % 2:
            folded = [T.concatenate([f, v[2 * half :]], axis=0) for f, v in zip(folded, values, strict=True)]
        values, length = folded, length - half
    return values


def _fold(pair: LoweringRow, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """A reduction by a binary op."""
    x, axes = inputs[0], tuple(node.params["axis"])
    shape = lengths(x)
    count = prod(shape[a] for a in axes)
    if not axes:
        return x
    if not count:  # max and min of no elements were refused before
        return T.alloc(T.constant(node.op != "any", dtype=node.dtype.value), *node.shape)
    kept = [a for a in range(len(shape)) if a not in axes]
    rows = T.reshape(x.dimshuffle(*axes, *kept), (count, *(shape[a] for a in kept)), ndim=1 + len(kept))
    (folded,) = _halves(T, [rows], count, lambda a, b: [pair(T, node, [a, b])])
    return T.reshape(folded, node.shape, ndim=len(node.shape))


def _mean(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Theano's mean reads lengths on the host and sends them to the device."""
    count = prod(lengths(inputs[0])[a] for a in node.params["axis"])
    return T.true_div(TABLE["sum"](T, node, inputs), T.constant(count, dtype=node.dtype.value))


def _extreme(comparison: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """The larger or smaller of two. Theano's own is invalid OpenCL (theano/scalar/basic.py, Maximum.c_code)."""
    a, b = inputs
    first = getattr(T, comparison)(a, b)
    return T.switch(first if node.dtype.is_integer else T.or_(T.isnan(a), first), a, b)


def _position(better: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """argmax or argmin: the first of equals; a NaN wins over all numbers."""
    x, axis = inputs[0], node.params["axis"]
    shape = lengths(x)
    kept = [a for a in range(len(shape)) if a != axis]
    numbers = np.broadcast_to(np.arange(shape[axis]).reshape(-1, *[1] * len(kept)), [shape[axis], *node.shape])

    def combine(a: Any, i: Any, b: Any, j: Any) -> Sequence[Any]:
        second = T.or_(getattr(T, better)(b, a), T.and_(T.eq(a, b), T.lt(j, i)))
        if x.dtype.startswith("float"):
            first_nan, second_nan = T.isnan(a), T.isnan(b)
            second = T.switch(first_nan, T.and_(second_nan, T.lt(j, i)), T.or_(second_nan, second))
        return [T.switch(second, b, a), T.switch(second, j, i)]

    pairs = [x.dimshuffle(axis, *kept), T.constant(numbers, dtype="int64")]
    return T.reshape(_halves(T, pairs, shape[axis], combine)[1], node.shape, ndim=len(node.shape))


def _cumulative(name: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """A scan by doubling: each element with the one before it, two before it, four, ... (Hillis and Steele, 1986)."""
    x, axis, rank = inputs[0], node.params["axis"], len(node.shape)
    order = [axis, *(a for a in range(rank) if a != axis)]
    x, step = x.dimshuffle(*order), 1
    while step < node.shape[axis]:
        x = T.concatenate([x[:step], getattr(T, name)(x[step:], x[:-step])], axis=0)
        step *= 2
    return x.dimshuffle(*[order.index(a) for a in range(rank)])


def _refused(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    raise UnsupportedOperation(
        "Theano has this for CUDA only, and would compute it on the host; take the backend theano: "
        "https://theano-pymc.readthedocs.io/en/latest/library/gpuarray/linalg.html"
    )


def _round(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """To the nearest, halves to even. Theano's round and its quotients call ``floorf``, which OpenCL lacks."""
    x, number = inputs[0], partial(T.constant, dtype=node.dtype.value)
    below = T.floor(x)
    rest = T.sub(x, below)
    odd = T.neq(T.mul(number(2), T.floor(T.mul(number(0.5), below))), below)
    up = T.or_(T.gt(rest, number(0.5)), T.and_(T.eq(rest, number(0.5)), odd))
    return T.switch(up, T.add(below, number(1)), below)


def _floor_divide(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    if node.dtype.is_integer:
        return TABLE[node.op](T, node, inputs)
    x, y = inputs
    return floor_of_quotient(T, node, x, y, nearest=lambda whole: _round(T, node, [whole]))


def _matmul(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    a, b = inputs
    inner = lengths(a)[-1]
    if not inner or not prod(node.shape):
        return T.alloc(T.constant(0, dtype=node.dtype.value), *node.shape)
    if node.dtype.is_integer:
        if prod(node.shape) * inner > MOST_PRODUCTS:
            return TABLE["matmul"](T, node, inputs)
        return sum_of_products(T, a, b, node.dtype.value)
    if len(node.shape) == 2:
        return T.dot(a, b)
    # libgpuarray does not call CLBlast's batched product: one product after the other.
    batch = prod(node.shape[:-2])
    left, right = (T.reshape(x, (batch, *lengths(x)[-2:]), ndim=3) for x in inputs)
    products = [T.dot(left[i], right[i]).dimshuffle("x", 0, 1) for i in range(batch)]
    return T.reshape(T.concatenate(products, axis=0), node.shape, ndim=len(node.shape))


def rows(otherwise: Mapping[str, LoweringRow]) -> Mapping[str, LoweringRow]:
    """The rows of the generation, with replacements on OpenCL's devices, whose kind is ``cpu``."""

    def chosen(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
        return (_OPENCL if (node.device or "").startswith("cpu") else native)[node.op](T, node, inputs)

    native = {**TABLE, **otherwise}
    return {**otherwise, **dict.fromkeys(_OPENCL, chosen)}


_OPENCL: Mapping[str, LoweringRow] = {
    "maximum": partial(_extreme, "ge"),
    "minimum": partial(_extreme, "le"),
    "mean": _mean,
    "max": partial(_fold, partial(_extreme, "ge")),
    "min": partial(_fold, partial(_extreme, "le")),
    "prod": partial(_fold, TABLE["multiply"]),  # the host would compute the gradient of Theano's own
    "any": partial(_fold, TABLE["logical_or"]),
    "all": partial(_fold, TABLE["logical_and"]),
    "argmax": partial(_position, "gt"),
    "argmin": partial(_position, "lt"),
    "cumulative_sum": partial(_cumulative, "add"),
    "cumulative_prod": partial(_cumulative, "mul"),
    **dict.fromkeys((*linear_algebra.ROWS, "sort", "argsort", "searchsorted"), _refused),
    "diagonal": linear_algebra.diagonal_by_slices,
    "matmul": _matmul,
    "pow": power_by_squaring,
    "round": _round,
    "floor_divide": _floor_divide,
}
