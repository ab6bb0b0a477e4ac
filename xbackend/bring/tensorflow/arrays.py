"""Operations that make, reshape, join, split, pad and repeat arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring.arrays import parts
from xbackend.bring.tensorflow.walk import TensorFlowWalk, array, held, known, lengths, row, whole
from xbackend.errors import GraphError


def _shape_of(value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, np.ndarray) else array(value).shape


@row("Const", attributes="value")
def const(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """The constant. TensorFlow may store fewer numbers than elements: the last one, or 0, fills the rest, which is a
    `full` op in a large constant."""
    said, make = operation.get_attr("value"), import_module("tensorflow").make_ndarray
    shape = [int(one.size) for one in said.tensor_shape.dim]
    given = next((each for field, each in said.ListFields() if field.name.endswith("_val")), ())
    if prod(shape) <= max(walk.limit, len(given)) or said.tensor_content:
        return np.asarray(make(said))
    dtype = held(operation.outputs[0].dtype)
    del said.tensor_shape.dim[:]
    said.tensor_shape.dim.add().size = max(len(given), 1)
    first = make(said)
    if len(first) == 1:
        return xb.full(shape, first.item(), dtype=dtype)
    rest = xb.full((prod(shape) - len(first),), first[-1].item(), dtype=dtype)
    return xb.reshape(xb.concat([xb.asarray(first), rest]), shape)


row("NoOp")(lambda walk, operation, values: [])
row("IdentityN")(lambda walk, operation, values: values)
row("PlaceholderWithDefault", attributes="shape", folds=False)(lambda walk, operation, values: values[0])


@row("Identity", "Snapshot", "DebugGradientIdentity")
def identity(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """The value, on the device that the operation asks for. The body of a loop or a choice is on one device."""
    value = values[0]
    return xb.asarray(value) if isinstance(value, Array) and walk.within is None else value


@row("Assert", attributes="summarize", folds=False)
def check(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """Check a known condition. A program cannot stop, so one that depends on the inputs' values is refused."""
    if not isinstance(values[0], np.ndarray):
        raise GraphError(
            "a check depends on the values of the inputs, and no program stops: take it out, or check the inputs before"
        )
    if not values[0].all():
        said = [one.item() for one in values[1:] if isinstance(one, np.ndarray) and one.ndim == 0]
        text = " ".join(one.decode() if isinstance(one, bytes) else str(one) for one in said)
        raise GraphError(f"the check fails, whatever the inputs' values are: {text:.200}")
    return []


@row("Placeholder", "PlaceholderV2", attributes="shape")
def placeholder(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    raise GraphError(f"it is none of the inputs: give it as one, {operation.name!r}, with an array or its shape")


@row("EnsureShape", attributes="shape", folds=False)
def ensure_shape(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    wanted = import_module("tensorflow").TensorShape(operation.get_attr("shape"))
    if not wanted.is_compatible_with(_shape_of(values[0])):
        raise GraphError(f"the shape is {_shape_of(values[0])} and has to be {wanted}")
    return values[0]


@row("Shape", "ShapeN", "Size")
def shapes(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    of, dtype = prod if operation.type == "Size" else tuple, held(operation.get_attr("out_type")).value
    return [np.asarray(of(_shape_of(one)), dtype) for one in values]


row("Rank")(lambda walk, operation, values: np.asarray(len(_shape_of(values[0])), np.int32))


@row("BroadcastGradientArgs", "BroadcastArgs", "ConcatOffset", "InvertPermutation")
def of_shapes(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    raise GraphError("a shape, or an order of axes, depends on the values of the inputs")


def _of(kind: str, what: str, function: Callable[[Any, tuple[int, ...]], Any]) -> None:
    """Add the row of an operation on an array and known integers, which errors call ``what``."""
    row(kind)(lambda walk, operation, values: function(array(values[0]), lengths(values[1], what)))


_of("Reshape", "the shape of a reshape", lambda x, shape: xb.reshape(x, _without_unknown(x, shape)))
_of("ExpandDims", "the axis of expand_dims", lambda x, axes: xb.expand_dims(x, axis=axes))
_of("Transpose", "the order of axes", xb.permute_dims)
_of("BroadcastTo", "the shape of a broadcast", xb.broadcast_to)
_of("Tile", "the repetitions of a tile", xb.tile)
_of("ReverseV2", "the axes of a reverse", lambda x, axes: xb.flip(x, axis=axes))


def _without_unknown(x: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without -1. If it has zeros, TensorFlow infers the length from the other lengths of both shapes."""
    if -1 not in shape or 0 not in shape:
        return shape
    lengths_, wanted = ([n for n in one if n > 0] for one in (x.shape, shape))
    return tuple(prod(lengths_) // max(prod(wanted), 1) if n == -1 else n for n in shape)


@row("Squeeze", attributes="squeeze_dims")
def squeeze(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x, axes = array(values[0]), tuple(operation.get_attr("squeeze_dims"))
    axes = axes or tuple(a for a, n in enumerate(x.shape) if n == 1)
    return xb.squeeze(x, axis=axes) if axes else x


@row("Fill", attributes="index_type")
def fill(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    target = lengths(values[0], "the shape of a fill")
    if isinstance(values[1], np.ndarray):
        return xb.full(target, values[1].item(), dtype=held(operation.get_attr("T")))
    return xb.broadcast_to(array(values[1]), target)


@row("Range", "LinSpace")
def range_(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    start, stop, step = (known(one, "the bound of a range").item() for one in values)
    if operation.type == "LinSpace":
        return xb.linspace(start, stop, int(step), dtype=held(operation.get_attr("T")))
    dtype = held(operation.get_attr("Tidx"))
    if dtype.is_floating:  # TensorFlow counts in the dtype
        own = np.dtype(dtype.value).type
        count = int(np.ceil(np.abs((own(stop) - own(start)) / own(step))))
        stop = start + (count - 0.5) * step
    return xb.arange(start, stop, step, dtype=dtype)


@row("Pack", attributes="axis")
def pack(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return xb.stack([array(one) for one in values], axis=operation.get_attr("axis"))


@row("Unpack", attributes="axis num")
def unpack(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return list(xb.unstack(array(values[0]), axis=operation.get_attr("axis")))


@row("ConcatV2", "Concat")
def concat(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    *parts, axis = values if operation.type == "ConcatV2" else [*values[1:], values[0]]
    return xb.concat([array(one) for one in parts], axis=whole(axis, "the axis of a concat"))


@row("Split", attributes="num_split")
def split(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    axis, x, count = whole(values[0], "the axis of a split"), array(values[1]), operation.get_attr("num_split")
    return parts(x, axis, [x.shape[axis] // count] * count)


@row("SplitV", attributes="num_split")
def split_v(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x, axis = array(values[0]), whole(values[2], "the axis of a split")
    each = list(lengths(values[1], "the lengths of a split"))
    if -1 in each:
        each[each.index(-1)] = x.shape[axis] - sum(each) - 1
    return parts(x, axis, each)


@row("Pad", "PadV2")
def pad(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x, around = array(values[0]), known(values[1], "the width of a padding").tolist()
    return padded(x, around, array(values[2]) if len(values) > 2 else 0) if around else x


def padded(x: Any, around: Sequence[Sequence[int]], value: Any) -> Any:
    """The array padded with ``value``. ``around`` has a pair for each axis: the widths before and after."""
    shape = tuple(n + sum(pair) for n, pair in zip(x.shape, around, strict=True))
    inside = tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, around, strict=True))
    frame = xb.broadcast_to(value, shape) if isinstance(value, Array) else xb.full(shape, value, dtype=x.dtype)
    return xb.at(frame)[inside].set(x)


@row("MirrorPad", attributes="mode")
def mirror_pad(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x, around = array(values[0]), known(values[1], "the width of a padding").tolist()
    mode: Any = operation.get_attr("mode").decode().lower()  # reflect or symmetric, as in NumPy
    for axis, pair in enumerate(around):
        if any(pair):
            x = xb.take(x, np.pad(np.arange(x.shape[axis]), pair, mode=mode), axis=axis)
    return x


@row("Roll")
def roll(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    shift, axis = lengths(values[1], "the shift of a roll"), lengths(values[2], "the axes of a roll")
    return xb.roll(array(values[0]), shift, axis=axis)


@row("OneHot", attributes="axis")
def one_hot(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    where, depth, axis = array(values[0]), whole(values[1], "the depth of a one_hot"), operation.get_attr("axis")
    on, off = map(array, values[2:])
    number, where = where.ndim if axis == -1 else axis, xb.astype(where, where.dtype.wider)  # uint8 ends at 255
    classes = xb.arange(depth, dtype=where.dtype)
    own = xb.reshape(classes, tuple(depth if a == number else 1 for a in range(where.ndim + 1)))
    return xb.where(xb.equal(xb.expand_dims(where, axis=number), own), on, off)
