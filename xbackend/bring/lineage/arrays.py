"""Rows of ops that create, rearrange, join, split, sort and check arrays, and of ops with an inner graph."""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring import dtypes
from xbackend.bring.arrays import parts
from xbackend.bring.lineage.walk import FOLDED, LineageWalk, graph_of, row
from xbackend.errors import GraphError


@row(
    *("DeepCopyOp", "ViewOp", "TensorFromScalar", "ScalarFromTensor", "Unbroadcast", "Rebroadcast", "SpecifyShape"),
    props="axis axes",
)
def same(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    return values[0]


@row("Shape", "Shape_i", props="i")
def shape(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    lengths = walk.array(node.inputs[0]).shape
    return np.asarray(lengths if type(node.op).__name__ == "Shape" else lengths[node.op.i], np.int64)


@row("DimShuffle", props="new_order")
def dim_shuffle(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    array, order = walk.array(node.inputs[0]), list(node.op.new_order)
    kept = [axis for axis in order if axis != "x"]
    if len(kept) < array.ndim:
        array = xb.squeeze(array, axis=tuple(axis for axis in range(array.ndim) if axis not in kept))
    if kept != sorted(kept):
        array = xb.permute_dims(array, [sorted(kept).index(axis) for axis in kept])
    new = tuple(place for place, axis in enumerate(order) if axis == "x")
    return xb.expand_dims(array, axis=new) if new else array


row("Reshape")(
    lambda walk, node, _: xb.reshape(walk.array(node.inputs[0]), walk.lengths(node.inputs[1], "the shape of a reshape"))
)


@row("JoinDims", props="start_axis n_axes")
def join_dims(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    array, start, end = walk.array(node.inputs[0]), node.op.start_axis, node.op.start_axis + node.op.n_axes
    return xb.reshape(array, (*array.shape[:start], prod(array.shape[start:end]), *array.shape[end:]))


@row("SplitDims", props="axis")
def split_dims(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    array, axis = walk.array(node.inputs[0]), node.op.axis
    lengths = walk.lengths(node.inputs[1], "the shape that an axis is split into")
    return xb.reshape(array, (*array.shape[:axis], *lengths, *array.shape[axis + 1 :]))


@row("Alloc", "AllocEmpty")
def alloc(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    dtype, is_empty = node.outputs[0].type.dtype, type(node.op).__name__ == "AllocEmpty"
    lengths = tuple(walk.whole(one, "the shape of an alloc") for one in node.inputs[0 if is_empty else 1 :])
    if is_empty:
        return np.zeros(lengths, dtype) if prod(lengths) <= FOLDED else xb.zeros(lengths, dtype=dtypes.held(dtype))
    return xb.broadcast_to(walk.cast(node.inputs[0], dtype), lengths)


@row("MakeVector")
def make_vector(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    dtype = node.outputs[0].type.dtype
    return xb.stack([walk.cast(one, dtype) for one in node.inputs])


@row("Join", props="axis")
def join(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    arrays, axis = list(node.inputs), getattr(node.op, "axis", None)
    if axis is None:  # in older generations it is the first input
        axis = walk.whole(arrays.pop(0), "the axis of a join")
    return xb.concat([walk.cast(one, node.outputs[0].type.dtype) for one in arrays], axis=axis)


@row("Split", props="axis")
def split(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    array, rest, axis = walk.array(node.inputs[0]), list(node.inputs[1:]), getattr(node.op, "axis", None)
    if axis is None:
        axis = walk.whole(rest.pop(0), "the axis of a split")
    lengths = walk.lengths(rest[0], "the lengths of a split")
    if sum(lengths) != array.shape[axis] or min(lengths) < 0:
        raise GraphError(f"a split of {array.shape[axis]} rows into {lengths}: give lengths that add up")
    return parts(array, axis, lengths)


@row("ARange")
def arange(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    raise GraphError("the length of an arange depends on the values of the inputs, and a program's shapes are fixed")


@row("Eye", "Tri")
def eye(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    rows, columns, k = (walk.whole(one, "the shape of a matrix") for one in node.inputs)
    dtype, is_tri = dtypes.held(node.outputs[0].type.dtype), type(node.op).__name__ == "Tri"
    return xb.tril(xb.ones((rows, columns), dtype=dtype), k=k) if is_tri else xb.eye(rows, columns, k=k, dtype=dtype)


row("DiffOp", props="n axis")(lambda walk, node, _: xb.diff(walk.array(node.inputs[0]), n=node.op.n, axis=node.op.axis))


@row("Repeat", props="axis")
def repeat(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    counts = np.asarray(walk.known(node.inputs[1], "the counts of a repeat"))
    array, axis = _along(walk.array(node.inputs[0]), node.op.axis)
    return xb.take(array, np.repeat(np.arange(array.shape[axis]), counts), axis=axis)


@row("CumOp", props="axis mode")
def cumulative(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    dtype = node.outputs[0].type.dtype
    if dtype == "bool":
        raise GraphError("cumulative sums and products of bool have no row: cast to int64 before")
    array, axis = _along(walk.cast(node.inputs[0], dtype), node.op.axis)
    of = xb.cumulative_sum if node.op.mode == "add" else xb.cumulative_prod
    return dtypes.in_range(of(array, axis=axis, dtype=dtypes.held(dtype)), dtype)


@row("Argmax", "MaxAndArgmax", props="axis")
def argmax(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    array = walk.array(node.inputs[0])
    axes = tuple(range(array.ndim) if node.op.axis is None else node.op.axis)
    kept, flat, axis = [a for a in range(array.ndim) if a not in axes], array, -1
    if len(axes) == 1:
        (axis,) = axes
    else:
        flat = xb.reshape(xb.permute_dims(array, (*kept, *axes)), (*(array.shape[a] for a in kept), -1))
    found = xb.argmax(flat, axis=axis)
    return found if type(node.op).__name__ == "Argmax" else [xb.max(array, axis=axes), found]


def _along(array: Any, axis: Any) -> tuple[Any, int]:
    """The array and the axis; for `None` the flattened array and axis 0."""
    return (xb.reshape(array, (-1,)), 0) if axis is None else (array, int(axis))


@row("SortOp", "ArgSortOp", props="axis")
def sort(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    own = getattr(node.op, "axis", None)
    own = walk.known(node.inputs[1], "the axis of a sort") if len(node.inputs) > 1 else own
    array, axis = _along(walk.array(node.inputs[0]), own)
    if type(node.op).__name__ == "SortOp":
        return xb.sort(array, axis=axis)
    return dtypes.cast(xb.argsort(array, axis=axis), "int64", node.outputs[0].type.dtype)


@row("SearchsortedOp", props="side")
def searchsorted(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    if len(node.inputs) > 2:
        raise GraphError("searchsorted with a sorter has no row: sort the array before")
    common = np.result_type(*(one.type.dtype for one in node.inputs)).name
    found = xb.searchsorted(*(walk.cast(one, common) for one in node.inputs), side=node.op.side)
    return dtypes.cast(found, "int64", node.outputs[0].type.dtype)


row("MakeSlice")(lambda walk, node, _: slice(*map(walk.bound, node.inputs)))


@row("Nonzero", "Unique", props="return_index return_inverse return_counts axis")
def known_only(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    raise GraphError("the shape of its result depends on the values of the inputs, and a program's shapes are fixed")


@row("CheckAndRaise", "Assert", "CheckParameterValue", props="can_be_replaced_by_ninf")
def check(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    """A check. A failed one of PyMC's parameters gives minus infinity, as in PyMC. Any other stops the framework; it
    gives NaN, as no program stops."""
    value, conditions = node.inputs[0], [walk.cast(one, "bool") for one in node.inputs[1:]]
    open_ = [one for one in conditions if isinstance(one, Array)]
    if any(not isinstance(one, Array) and not one.all() for one in conditions):
        raise GraphError(f"a check fails whatever the inputs are: {getattr(node.op, 'msg', '')}")
    if not open_:
        return values[0]
    if "float" not in value.type.dtype:
        raise GraphError("a check of whole numbers that depends on the values of the inputs has no row")
    instead = -np.inf if getattr(node.op, "can_be_replaced_by_ninf", False) else np.nan
    array = walk.array(value)
    return xb.where(reduce(xb.logical_and, map(xb.all, open_)), array, xb.full_like(array, instead))


@row("OpFromGraph")
def inner_graph(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    inputs, outputs = graph_of(node.op) or ([], [])
    if _has_rule(node.op):
        raise GraphError("an OpFromGraph with a gradient of its own has no row: leave the override out")
    return walk.inner(dict(zip(inputs, values, strict=True))).results(outputs)


def _has_rule(op: Any) -> bool:
    """Whether a user gave an op a gradient of its own. Those of the framework's classes are of what they compute."""
    kind = type(op)
    base = next(one for one in kind.__mro__ if one.__name__ == "OpFromGraph")
    if kind is not base and kind.__module__.partition(".")[0] == base.__module__.partition(".")[0]:
        return False
    own = [getattr(op, f"{name}_overrides", None) for name in ("pullback", "lop", "grad")]
    own += [] if getattr(op, "_lop_is_default", True) else [op]  # Theano's only attribute
    methods = [name for name in ("pullback", "L_op", "grad") if getattr(kind, name, 0) is not getattr(base, name, 0)]
    return bool(methods) or any(one not in (None, "default") for one in own)


@row("IfElse")
def if_else(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    count = node.op.n_outs
    condition, then, otherwise = walk.cast(node.inputs[0], "bool"), node.inputs[1 : 1 + count], node.inputs[1 + count :]
    each = zip(then, otherwise, node.outputs, strict=True)
    pairs = [(walk.cast(a, o.type.dtype), walk.cast(b, o.type.dtype)) for a, b, o in each]
    for one, other in pairs:
        if one.shape != other.shape:
            raise GraphError(f"its branches have the shapes {one.shape} and {other.shape}, and a program's are fixed")
    return [xb.where(condition, *pair) for pair in pairs]
