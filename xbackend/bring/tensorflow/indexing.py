"""Reading and writing elements: slices, gathers and scatters."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring.tensorflow.walk import TensorFlowWalk, array, known, lengths, row, whole, within
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType

_MASKS = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"


@row("StridedSlice", "StridedSliceGrad", "TensorStridedSliceUpdate", attributes=_MASKS)
def strided_slice(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x, place = values[0], _key(walk, operation, values[1:4])
    if operation.type == "StridedSlice":
        return array(x)[place]
    new = array(values[4])
    if operation.type == "TensorStridedSliceUpdate":
        return xb.at(array(x))[place].set(new)
    return xb.at(xb.zeros(lengths(x, "the shape of an array"), dtype=new.dtype))[place].add(new)


def _key(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> tuple[Any, ...]:
    """The index: integers, slices, ``...``, `None`, and scalars of the program."""
    masks = {name: int(operation.get_attr(name)) for name in _MASKS.split()}
    begins, ends, steps = (_entries(walk, operation.inputs[i + 1], one) for i, one in enumerate(values))
    found: list[Any] = []
    for place, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        bit = 1 << place
        if masks["ellipsis_mask"] & bit:
            found.append(Ellipsis)
        elif masks["new_axis_mask"] & bit:
            found.append(None)
        elif masks["shrink_axis_mask"] & bit:
            found.append(begin)
        else:
            begin, end = None if masks["begin_mask"] & bit else begin, None if masks["end_mask"] & bit else end
            bounds = (begin, end, step)
            if any(isinstance(one, Array) for one in bounds):
                raise GraphError("a bound of a slice depends on the values of the inputs: use tf.slice of a fixed size")
            found.append(slice(*bounds))
    return tuple(found)


def _entries(walk: TensorFlowWalk, tensor: Any, value: Any) -> list[Any]:
    """The elements of a vector of bounds: integers where they are known, else arrays."""
    if isinstance(value, np.ndarray):
        return [int(n) for n in value]
    seen = walk.seen.get(tensor.op.name)  # of no operation whose result is fed
    if tensor.op.type == "Pack" and tensor.op.inputs and seen is not None:
        each = [walk.read(one, seen) for one in tensor.op.inputs]
        return [int(one) if isinstance(one, np.ndarray) else one for one in each]
    return [value[i] for i in range(value.shape[0])]


@row("Slice")
def slice_(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """A part of fixed size, whose begin may depend on the inputs' values."""
    x = array(values[0])
    begins = _entries(walk, operation.inputs[1], values[1])
    sizes = lengths(values[2], "the size of a slice")
    if any(isinstance(b, Array) and n == -1 for b, n in zip(begins, sizes, strict=True)):
        raise GraphError("the size of a slice depends on the values of the inputs: give tf.slice a size")
    each = list(zip(begins, sizes, strict=True))
    part = x[tuple(slice(b, None if n == -1 else b + n) if isinstance(b, int) else slice(None) for b, n in each)]
    for axis, (begin, size) in enumerate(each):
        if isinstance(begin, Array):
            where = xb.add(xb.arange(size, dtype=DType.int64), xb.astype(begin, DType.int64))
            part = xb.take(part, where, axis=axis)
    return part


@row("GatherV2", attributes="batch_dims")
def gather(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    axis, batch = whole(values[2], "the axis of a gather"), operation.get_attr("batch_dims")
    return gathered(array(values[0]), values[1], axis, batch)


@row("Gather", attributes="validate_indices")
def gather_rows(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return gathered(array(values[0]), values[1], 0, 0)


@row("GatherNd")
def gather_nd(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x = array(values[0])
    return x[places(values[1], x.shape)]


def gathered(x: Any, where: Any, axis: int, batch: int) -> Any:
    """The elements of an axis at the indices ``where``; the first ``batch`` axes are batch axes of both."""
    where = within(where, x.shape[axis], "the indices of a gather")
    if not batch:
        return xb.take(x, where, axis=axis)
    where = array(where)
    batch, axis = batch + where.ndim if batch < 0 else batch, axis % x.ndim
    length, lead = x.shape[axis], x.shape[:batch]
    between, rest, inner = x.shape[batch:axis], x.shape[axis + 1 :], where.shape[batch:]
    rows = xb.reshape(xb.moveaxis(x, axis, batch), (prod(lead) * length, *between, *rest))
    first = np.arange(prod(lead), dtype=np.int64).reshape(-1, 1) * length
    found = xb.take(rows, xb.add(xb.reshape(xb.astype(where, DType.int64), (prod(lead), -1)), first), axis=0)
    found = xb.reshape(found, (*lead, *inner, *between, *rest))
    source = tuple(range(batch, batch + len(inner)))
    return xb.moveaxis(found, source, tuple(n + len(between) for n in source))


def places(where: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The arrays along the last axis of an array of indices, one for each indexed axis of an array of this shape.
    Raises `GraphError`."""
    count = where.shape[-1]
    if not count:
        raise GraphError("indices of no axis have no row")
    return tuple(within(where[..., i], shape[i], f"the indices of axis {i}") for i in range(count))


@row("ScatterNd")
def scatter_nd(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    new = array(values[1])
    shape = lengths(values[2], "the shape of a scatter")
    return xb.at(xb.zeros(shape, dtype=new.dtype))[places(values[0], shape)].add(new)


@row("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub")
def tensor_scatter(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x = array(values[0])
    place = xb.at(x)[places(values[1], x.shape)]
    return put_at(place, operation.type.removeprefix("TensorScatter"), array(values[2]))


def put_at(place: Any, how: str, new: Any) -> Any:
    """The array after a scatter, which sets, adds or subtracts ``new`` at a place."""
    if how == "Update":
        return place.set(new)
    return place.add(new if how == "Add" else xb.negative(new))


@row("DynamicStitch", "ParallelDynamicStitch")
def stitch(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """The rows of several arrays, put at known places. At a repeated place the last row stays."""
    count = operation.get_attr("N")
    where = [known(one, "the places of a stitch") for one in values[:count]]
    inner = array(values[count]).shape[where[0].ndim :]
    rows = [xb.reshape(array(one), (at.size, *inner)) for one, at in zip(values[count:], where, strict=True)]
    flat = np.concatenate([one.ravel() for one in where])
    numbers, from_end = np.unique(flat[::-1], return_index=True)
    if numbers.size != flat.max(initial=-1) + 1:
        raise GraphError("a stitch leaves rows out, whose values TensorFlow does not say")
    return xb.take(xb.concat(rows), flat.size - 1 - from_end, axis=0)
