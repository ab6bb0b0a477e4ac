"""Ops that make, move, join and split arrays, checks, and graphs inside of one node."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring import dtypes
from xbackend.bring.lineage.walk import FOLDED, Walk, row
from xbackend.bring.parts import parts
from xbackend.errors import GraphError


@row(
    "DeepCopyOp",
    "ViewOp",
    "TensorFromScalar",
    "ScalarFromTensor",
    "Unbroadcast",
    "Rebroadcast",
    "SpecifyShape",
    props="axis axes",
)
def same(walk: Walk, node: Any, values: list[Any]) -> Any:
    return values[0]


@row("Shape")
def shape(walk: Walk, node: Any, values: list[Any]) -> Any:
    return np.asarray(walk.array(node.inputs[0]).shape, np.int64)


@row("Shape_i", props="i")
def shape_i(walk: Walk, node: Any, values: list[Any]) -> Any:
    return np.asarray(walk.array(node.inputs[0]).shape[node.op.i], np.int64)


@row("DimShuffle", props="new_order")
def dim_shuffle(walk: Walk, node: Any, values: list[Any]) -> Any:
    array, order = walk.array(node.inputs[0]), list(node.op.new_order)
    kept = [axis for axis in order if axis != "x"]
    dropped = [axis for axis in range(array.ndim) if axis not in kept]
    if dropped:
        array = xb.squeeze(array, axis=tuple(dropped))
    ranks = {axis: position for position, axis in enumerate(sorted(kept))}
    axes = tuple(ranks[axis] for axis in kept)
    if axes != tuple(range(len(axes))):
        array = xb.permute_dims(array, axes)
    lengths = iter(array.shape)
    shape = tuple(1 if axis == "x" else next(lengths) for axis in order)
    return array if shape == array.shape else xb.reshape(array, shape)


@row("Reshape")
def reshape(walk: Walk, node: Any, values: list[Any]) -> Any:
    lengths = walk.known(node.inputs[1], "the shape of a reshape")
    return xb.reshape(walk.array(node.inputs[0]), tuple(int(n) for n in lengths))


@row("JoinDims", props="start_axis n_axes")
def join_dims(walk: Walk, node: Any, values: list[Any]) -> Any:
    array, start, count = walk.array(node.inputs[0]), node.op.start_axis, node.op.n_axes
    joined = int(np.prod(array.shape[start : start + count], dtype=np.int64))
    return xb.reshape(array, (*array.shape[:start], joined, *array.shape[start + count :]))


@row("SplitDims", props="axis")
def split_dims(walk: Walk, node: Any, values: list[Any]) -> Any:
    array, axis = walk.array(node.inputs[0]), node.op.axis
    lengths = [int(n) for n in walk.known(node.inputs[1], "the shape that an axis is split into")]
    return xb.reshape(array, (*array.shape[:axis], *lengths, *array.shape[axis + 1 :]))


@row("Alloc")
def alloc(walk: Walk, node: Any, values: list[Any]) -> Any:
    lengths = tuple(walk.whole(one, "the shape of an alloc") for one in node.inputs[1:])
    return xb.broadcast_to(walk.cast(node.inputs[0], node.outputs[0].type.dtype), lengths)


@row("AllocEmpty")
def alloc_empty(walk: Walk, node: Any, values: list[Any]) -> Any:
    lengths = tuple(walk.whole(one, "the shape of an alloc") for one in node.inputs)
    dtype = node.outputs[0].type.dtype
    return np.zeros(lengths, dtype) if prod(lengths) <= FOLDED else xb.zeros(lengths, dtype=dtypes.held(dtype))


@row("MakeVector")
def make_vector(walk: Walk, node: Any, values: list[Any]) -> Any:
    dtype = node.outputs[0].type.dtype
    if not node.inputs:
        return np.zeros(0, dtype)
    return xb.stack([walk.cast(one, dtype) for one in node.inputs])


@row("Join", props="axis")
def join(walk: Walk, node: Any, values: list[Any]) -> Any:
    arrays, axis = list(node.inputs), getattr(node.op, "axis", None)
    if axis is None:  # older generations have it as the first input
        axis = walk.whole(arrays.pop(0), "the axis of a join")
    return xb.concat([walk.cast(one, node.outputs[0].type.dtype) for one in arrays], axis=axis)


@row("Split", props="axis")
def split(walk: Walk, node: Any, values: list[Any]) -> Any:
    array, rest, axis = walk.array(node.inputs[0]), list(node.inputs[1:]), getattr(node.op, "axis", None)
    if axis is None:
        axis = walk.whole(rest.pop(0), "the axis of a split")
    lengths = [int(n) for n in walk.known(rest[0], "the lengths of a split")]
    return parts(array, axis, lengths)


@row("ARange")
def arange(walk: Walk, node: Any, values: list[Any]) -> Any:
    bounds = [walk.known(one, "the length of an arange").item() for one in node.inputs]
    return np.arange(*bounds, dtype=node.outputs[0].type.dtype)


@row("Eye", "Tri")
def eye(walk: Walk, node: Any, values: list[Any]) -> Any:
    rows, columns, k = (walk.whole(one, "the shape of a matrix") for one in node.inputs)
    dtype = dtypes.held(node.outputs[0].type.dtype)
    if type(node.op).__name__ == "Tri":
        return xb.tril(xb.ones((rows, columns), dtype=dtype), k=k)
    return xb.eye(rows, columns, k=k, dtype=dtype)


@row("DiffOp", props="n axis")
def differences(walk: Walk, node: Any, values: list[Any]) -> Any:
    return xb.diff(walk.array(node.inputs[0]), n=node.op.n, axis=node.op.axis)


@row("Repeat", props="axis")
def repeat(walk: Walk, node: Any, values: list[Any]) -> Any:
    counts = np.asarray(walk.known(node.inputs[1], "the counts of a repeat"))
    array, axis = walk.array(node.inputs[0]), node.op.axis
    if axis is None:
        array, axis = xb.reshape(array, (-1,)), 0
    where = np.repeat(np.arange(array.shape[axis]), counts)
    return xb.take(array, where, axis=axis)


@row("CumOp", props="axis mode")
def cumulative(walk: Walk, node: Any, values: list[Any]) -> Any:
    dtype, axis = node.outputs[0].type.dtype, node.op.axis
    if dtype == "bool":
        raise GraphError("cumulative sums and products of bool have no row: cast to int64 before")
    array = walk.cast(node.inputs[0], dtype)
    if axis is None:
        array, axis = xb.reshape(array, (-1,)), 0
    of = xb.cumulative_sum if node.op.mode == "add" else xb.cumulative_prod
    return dtypes.in_range(of(array, axis=axis, dtype=dtypes.held(dtype)), dtype)


@row("Argmax", props="axis")
def argmax(walk: Walk, node: Any, values: list[Any]) -> Any:
    array, axes = walk.array(node.inputs[0]), node.op.axis
    axes = tuple(range(array.ndim)) if axes is None else tuple(axes)
    if len(axes) == 1:
        return xb.argmax(array, axis=axes[0])
    kept = tuple(axis for axis in range(array.ndim) if axis not in axes)
    moved = xb.permute_dims(array, (*kept, *axes))
    return xb.argmax(xb.reshape(moved, (*(array.shape[axis] for axis in kept), -1)), axis=-1)


@row("MaxAndArgmax", props="axis")
def max_and_argmax(walk: Walk, node: Any, values: list[Any]) -> Any:
    axes = node.op.axis
    largest = xb.max(walk.array(node.inputs[0]), axis=None if axes is None else tuple(axes))
    return [largest, argmax(walk, node, values)]


@row("SortOp", props="axis")
def sort(walk: Walk, node: Any, values: list[Any]) -> Any:
    array, axis = _along(walk, node)
    return xb.sort(array, axis=axis)


@row("ArgSortOp", props="axis")
def argsort(walk: Walk, node: Any, values: list[Any]) -> Any:
    array, axis = _along(walk, node)
    return dtypes.cast(xb.argsort(array, axis=axis), "int64", node.outputs[0].type.dtype)


def _along(walk: Walk, node: Any) -> tuple[Any, int]:
    array, axis = walk.array(node.inputs[0]), getattr(node.op, "axis", None)
    if len(node.inputs) > 1:
        axis = walk.known(node.inputs[1], "the axis of a sort")
    return (xb.reshape(array, (-1,)), 0) if axis is None else (array, int(axis))


@row("SearchsortedOp", props="side")
def searchsorted(walk: Walk, node: Any, values: list[Any]) -> Any:
    if len(node.inputs) > 2:
        raise GraphError("searchsorted with a sorter has no row: sort the array before")
    common = np.result_type(*(one.type.dtype for one in node.inputs)).name
    found = xb.searchsorted(*(walk.cast(one, common) for one in node.inputs), side=node.op.side)
    return dtypes.cast(found, "int64", node.outputs[0].type.dtype)


@row("Nonzero", "Unique", "MakeSlice", props="return_index return_inverse return_counts axis")
def known_only(walk: Walk, node: Any, values: list[Any]) -> Any:
    if type(node.op).__name__ == "MakeSlice":
        return slice(*(None if value is None else _index(value) for value in values))
    raise GraphError("the shape of its result depends on the values of the inputs, and a program's shapes are fixed")


def _index(value: Any) -> int:
    if isinstance(value, Array):
        raise GraphError("a bound of a slice depends on the values of the inputs, and a program's shapes are fixed")
    return int(value)


@row("CheckAndRaise", "Assert", "CheckParameterValue", props="can_be_replaced_by_ninf")
def check(walk: Walk, node: Any, values: list[Any]) -> Any:
    """PyMC puts minus infinity where a check of parameters fails; another check stops the framework, which no program
    does: NaN."""
    value, conditions = node.inputs[0], [walk.cast(one, "bool") for one in node.inputs[1:]]
    open_ = [one for one in conditions if isinstance(one, Array)]
    if any(not isinstance(one, Array) and not one.all() for one in conditions):
        raise GraphError(f"a check fails whatever the inputs are: {getattr(node.op, 'msg', '')}")
    if not open_:
        return values[0]
    if "float" not in value.type.dtype:
        raise GraphError("a check of whole numbers that depends on the values of the inputs has no row")
    instead = -np.inf if getattr(node.op, "can_be_replaced_by_ninf", False) else np.nan
    holds = xb.all(open_[0])
    for one in open_[1:]:
        holds = xb.logical_and(holds, xb.all(one))
    array = walk.array(value)
    return xb.where(holds, array, xb.full_like(array, instead))


@row("OpFromGraph")
def inner_graph(walk: Walk, node: Any, values: list[Any]) -> Any:
    inner = node.op.fgraph
    own = (getattr(node.op, f"{name}_overrides", None) for name in ("pullback", "lop", "grad"))
    if type(node.op).__name__ == "OpFromGraph" and any(one not in (None, "default") for one in own):
        raise GraphError("an OpFromGraph with a gradient of its own has no row: leave the override out")
    inside = walk.inner(dict(zip(inner.inputs, values, strict=True)))
    return inside.results(inner.outputs)


@row("IfElse")
def if_else(walk: Walk, node: Any, values: list[Any]) -> Any:
    count = node.op.n_outs
    condition, then, otherwise = walk.cast(node.inputs[0], "bool"), node.inputs[1 : 1 + count], node.inputs[1 + count :]
    pairs = zip(then, otherwise, node.outputs, strict=True)
    return [xb.where(condition, walk.cast(a, o.type.dtype), walk.cast(b, o.type.dtype)) for a, b, o in pairs]
