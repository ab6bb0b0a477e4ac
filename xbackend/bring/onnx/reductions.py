"""Rows of reductions, positions, running sums, sorts and searches. They treat NaN as NumPy does."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from xbackend.bring.onnx.elementwise import OnnxRow
from xbackend.bring.onnx.graph import OnnxUse
from xbackend.program.dtypes import DType

_REDUCED = {  # an operator, and the result for no elements
    "sum": ("ReduceSum", 0),
    "prod": ("ReduceProd", 1),
    "mean": ("ReduceMean", math.nan),
    "any": ("ReduceMax", False),
    "all": ("ReduceMin", True),
}


def _reduced(use: OnnxUse) -> str:
    (name, of_nothing), axes = _REDUCED[use.node.op], use.params["axis"]
    if not use.x.size:
        return use.filled(of_nothing)
    return use(name, *use.inputs, use.ints(*axes), keepdims=0) if axes else use.inputs[0]


def _extreme(use: OnnxUse) -> str:
    """`max` and `min`: NaN if an element is, which the standard leaves open."""
    (x,), axes = use.inputs, use.params["axis"]
    if not axes:
        return x
    found = use("ReduceMax" if use.node.op == "max" else "ReduceMin", x, use.ints(*axes), keepdims=0)
    if not use.is_floating:
        return found
    undefined = use("ReduceMax", use("IsNaN", x), use.ints(*axes), keepdims=0)
    return use("Where", undefined, use.number(math.nan), found)


def _place(use: OnnxUse) -> str:
    """`argmax` and `argmin`: the position of the first NaN if there is one."""
    (x,), axis = use.inputs, use.params["axis"]
    found = use("ArgMax" if use.node.op == "argmax" else "ArgMin", x, axis=axis, keepdims=0)
    if not use.is_floating:
        return found
    undefined = use("IsNaN", x)
    first = use("ArgMax", use("Cast", undefined, to=DType.int32), axis=axis, keepdims=0)
    return use("Where", use("ReduceMax", undefined, use.ints(axis), keepdims=0), first, found)


def _running(name: str) -> OnnxRow:
    return lambda use: use(name, *use.inputs, use.number(use.params["axis"], "int64"))


def _order(use: OnnxUse, x: str) -> tuple[str, str]:
    """The elements along the axis in ascending order, and their positions. Equal elements keep their order."""
    axis = use.params["axis"]
    values, places = use.graph.add("TopK", [x, use.ints(use.x.shape[axis])], 2, axis=axis, largest=0, sorted=1)
    return values, places


def _sort(use: OnnxUse) -> str:
    """The sorted numbers, then all NaN."""
    (x,), axis = use.inputs, use.params["axis"]
    if not use.is_floating:
        return _order(use, x)[0]
    undefined, length = use("IsNaN", x), use.x.shape[axis]
    ordered, _ = _order(use, use("Where", undefined, use.number(math.inf), x))
    count = use("ReduceSum", use("Cast", undefined, to=DType.int64), use.ints(axis), keepdims=1)
    places = np.arange(length).reshape(-1, *(1 for _ in use.x.shape[axis + 1 :]))
    are_undefined = use("GreaterOrEqual", use.graph.constant(places), use("Sub", use.ints(length), count))
    return use("Where", are_undefined, use.number(math.nan), ordered)


def _argsort(use: OnnxUse) -> str:
    """Two stable sorts: the first puts NaN last, the second sorts by size."""
    (x,), axis = use.inputs, use.params["axis"]
    if not use.is_floating:
        return _order(use, x)[1]
    undefined = use("IsNaN", x)
    _, first = _order(use, use("Cast", undefined, to=DType.int32))
    sizes = use("GatherElements", use("Where", undefined, use.number(math.inf), x), first, axis=axis)
    _, second = _order(use, sizes)
    return use("GatherElements", first, second, axis=axis)


def _searchsorted(use: OnnxUse) -> str:
    """The number of elements below each number, or with ``right`` not above it, by bisection. NaN is above all."""
    among, wanted = use.inputs
    length = use.x.shape[0]
    one, last, count = (use.number(n, "int64") for n in (1, length - 1, length))
    found = use.graph.constant(np.zeros(use.node.shape, np.int64))
    for bit in reversed(range(length.bit_length())):
        ahead = use("Add", found, use.number(2**bit, "int64"))
        is_there = use("LessOrEqual", ahead, count)
        place = use("Where", is_there, use("Sub", ahead, one), last)
        element = use("Gather", among, place, axis=0)
        right = use.params["right"]
        is_below = use("Not", _precedes(use, wanted, element)) if right else _precedes(use, element, wanted)
        found = use("Where", use("And", is_there, is_below), ahead, found)
    return found


def _precedes(use: OnnxUse, first: str, second: str) -> str:
    less = use("Less", first, second)
    if not use.is_floating:
        return less
    return use("Or", less, use("And", use("IsNaN", second), use("Not", use("IsNaN", first))))


ROWS: Mapping[str, OnnxRow] = {
    **dict.fromkeys(_REDUCED, _reduced),
    **dict.fromkeys(("max", "min"), _extreme),
    **dict.fromkeys(("argmax", "argmin"), _place),
    "cumulative_sum": _running("CumSum"),
    "cumulative_prod": _running("CumProd"),
    "sort": _sort,
    "argsort": _argsort,
    "searchsorted": _searchsorted,
}
