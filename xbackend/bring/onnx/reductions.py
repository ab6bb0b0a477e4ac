"""Rows of reductions, positions, running sums, sorts and searches. NaN is in them as in NumPy's."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from xbackend.bring.onnx.elementwise import Row
from xbackend.bring.onnx.graph import Use
from xbackend.program.dtypes import DType


def _reduced(name: str, of_nothing: float) -> Row:
    """A reduction, and what it is of no elements."""

    def row(use: Use) -> str:
        axes = use.params["axis"]
        if not use.x.size:
            return use.filled(of_nothing)
        return use(name, *use.inputs, use.ints(*axes), keepdims=0) if axes else use.inputs[0]

    return row


def _extreme(name: str) -> Row:
    """`max` and `min`: NaN if one element is. The standard does not say what is made of it."""

    def row(use: Use) -> str:
        (x,), axes = use.inputs, use.params["axis"]
        if not axes:
            return x
        found = use(name, x, use.ints(*axes), keepdims=0)
        if not use.is_floating:
            return found
        undefined = use("ReduceMax", use("IsNaN", x), use.ints(*axes), keepdims=0)
        return use("Where", undefined, use.number(math.nan), found)

    return row


def _place(name: str) -> Row:
    """`argmax` and `argmin`: that of the first NaN if there is one."""

    def row(use: Use) -> str:
        (x,), axis = use.inputs, use.params["axis"]
        found = use(name, x, axis=axis, keepdims=0)
        if not use.is_floating:
            return found
        undefined = use("IsNaN", x)
        first = use("ArgMax", use("Cast", undefined, to=DType.int32), axis=axis, keepdims=0)
        return use("Where", use("ReduceMax", undefined, use.ints(axis), keepdims=0), first, found)

    return row


def _running(name: str) -> Row:
    return lambda use: use(name, *use.inputs, use.number(use.params["axis"], "int64"))


def _order(use: Use, x: str) -> tuple[str, str]:
    """The elements along the axis from the smallest on, and their places. Of equal ones the first comes first."""
    axis = use.params["axis"]
    values, places = use.graph.add("TopK", [x, use.ints(use.x.shape[axis])], 2, axis=axis, largest=0, sorted=1)
    return values, places


def _sort(use: Use) -> str:
    """The sorted numbers, then as many NaN as there are."""
    (x,), axis = use.inputs, use.params["axis"]
    if not use.is_floating:
        return _order(use, x)[0]
    undefined, length = use("IsNaN", x), use.x.shape[axis]
    ordered, _ = _order(use, use("Where", undefined, use.number(math.inf), x))
    count = use("ReduceSum", use("Cast", undefined, to=DType.int64), use.ints(axis), keepdims=1)
    places = np.arange(length).reshape(-1, *(1 for _ in use.x.shape[axis + 1 :]))
    are_undefined = use("GreaterOrEqual", use.graph.constant(places), use("Sub", use.ints(length), count))
    return use("Where", are_undefined, use.number(math.nan), ordered)


def _argsort(use: Use) -> str:
    """NaN behind the rest, then by size: two sorts, which both leave equal elements in their order."""
    (x,), axis = use.inputs, use.params["axis"]
    if not use.is_floating:
        return _order(use, x)[1]
    undefined = use("IsNaN", x)
    _, first = _order(use, use("Cast", undefined, to=DType.int32))
    sizes = use("GatherElements", use("Where", undefined, use.number(math.inf), x), first, axis=axis)
    _, second = _order(use, sizes)
    return use("GatherElements", first, second, axis=axis)


def _searchsorted(use: Use) -> str:
    """How many elements are below each number, by halving. NaN is above all others."""
    among, wanted = use.inputs
    length = use.x.shape[0]
    one, last, count = (use.number(n, "int64") for n in (1, length - 1, length))
    found = use.graph.constant(np.zeros(use.node.shape, np.int64))
    for bit in reversed(range(length.bit_length())):
        ahead = use("Add", found, use.number(2**bit, "int64"))
        is_there = use("LessOrEqual", ahead, count)
        place = use("Where", is_there, use("Sub", ahead, one), last)
        is_below = _below(use, use("Gather", among, place, axis=0), wanted)
        found = use("Where", use("And", is_there, is_below), ahead, found)
    return found


def _below(use: Use, one: str, wanted: str) -> str:
    """Whether an element is in front of the place of a number."""
    if use.params["right"]:
        return use("Not", _precedes(use, wanted, one))
    return _precedes(use, one, wanted)


def _precedes(use: Use, first: str, second: str) -> str:
    less = use("Less", first, second)
    if not use.is_floating:
        return less
    return use("Or", less, use("And", use("IsNaN", second), use("Not", use("IsNaN", first))))


ROWS: Mapping[str, Row] = {
    "sum": _reduced("ReduceSum", 0),
    "prod": _reduced("ReduceProd", 1),
    "mean": _reduced("ReduceMean", math.nan),
    "any": _reduced("ReduceMax", False),
    "all": _reduced("ReduceMin", True),
    "max": _extreme("ReduceMax"),
    "min": _extreme("ReduceMin"),
    "argmax": _place("ArgMax"),
    "argmin": _place("ArgMin"),
    "cumulative_sum": _running("CumSum"),
    "cumulative_prod": _running("CumProd"),
    "sort": _sort,
    "argsort": _argsort,
    "searchsorted": _searchsorted,
}
