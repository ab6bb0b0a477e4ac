"""Operations along axes: reductions, argmax and argmin, cumulative sums, top k, sums of segments, searches."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.bring.tensorflow.indexing import gathered
from xbackend.bring.tensorflow.walk import TensorFlowWalk, array, held, known, lengths, row, whole, within
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType


def _mean(x: Any, **over: Any) -> Any:
    if not x.dtype.is_floating:
        raise GraphError(f"a mean of {x.dtype} drops its fraction and has no row: use tf.cast before")
    return xb.mean(x, **over)


_REDUCED: dict[str, Callable[..., Any]] = {
    "Sum": lambda x, **over: xb.sum(x, dtype=x.dtype, **over),
    "Prod": lambda x, **over: xb.prod(x, dtype=x.dtype, **over),
    "Mean": _mean,
    "Max": xb.max,
    "Min": xb.min,
    "Any": xb.any,
    "All": xb.all,
    "EuclideanNorm": lambda x, **over: xb.sqrt(xb.sum(xb.square(x), **over)),
}


@row(*_REDUCED, attributes="keep_dims")
def reduction(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    axes = lengths(values[1], "the axes of a reduction")
    x = array(values[0])
    if not axes:
        return x if operation.type != "EuclideanNorm" else xb.abs(x)
    return _REDUCED[operation.type](x, axis=axes, keepdims=operation.get_attr("keep_dims"))


@row("ArgMax", "ArgMin")
def position(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    axis, dtype = whole(values[1], "the axis of a position"), held(operation.get_attr("output_type"))
    x = array(values[0])
    x = x if x.dtype.is_numeric else xb.astype(x, DType.int32)
    return xb.astype((xb.argmax if operation.type == "ArgMax" else xb.argmin)(x, axis=axis), dtype)


@row("Cumsum", "Cumprod", attributes="exclusive reverse")
def cumulative(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x = array(values[0])
    axis = whole(values[1], "the axis of a running sum") % x.ndim
    backward = operation.get_attr("reverse")
    x = xb.flip(x, axis=axis) if backward else x
    of, first = (xb.cumulative_sum, 0) if operation.type == "Cumsum" else (xb.cumulative_prod, 1)
    if operation.get_attr("exclusive") and x.shape[axis]:
        front = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        kept = x[(*[slice(None)] * axis, slice(None, -1))]
        x = xb.concat([xb.full(front, first, dtype=x.dtype), kept], axis=axis)
    result = of(x, axis=axis, dtype=x.dtype)
    return xb.flip(result, axis=axis) if backward else result


@row("TopKV2", attributes="sorted")
def top_k(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> list[Any]:
    """The largest elements, always sorted; of equal ones the first."""
    x, count = array(values[0]), whole(values[1], "the number of the largest elements")
    where = xb.argsort(x, descending=True)[..., :count]
    return [xb.take_along_axis(x, where), xb.astype(where, held(operation.outputs[1].dtype))]


@row("UnsortedSegmentSum", "SegmentSum", "SparseSegmentSum")
def segment_sum(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    if operation.type == "SparseSegmentSum":
        values = [gathered(array(values[0]), values[1], 0, 0), values[2]]
    x, segments = array(values[0]), values[1]
    if len(values) > 2:
        count = whole(values[2], "the number of segments")
        if isinstance(segments, np.ndarray):  # negative ones are dropped
            within(segments.clip(0), count, "the segments")
    else:
        numbers = known(segments, "the number of segments")
        count = int(numbers[-1]) + 1 if numbers.size else 0
        if (np.diff(numbers, prepend=0) < 0).any():
            raise GraphError("the segments are not in order, from 0 on: use tf.math.unsorted_segment_sum")
    inner = x.shape[segments.ndim :]
    rows, where = xb.reshape(x, (prod(segments.shape), *inner)), xb.reshape(array(segments), (-1,))
    # Rows with a negative segment are dropped: they go to one more segment.
    where = xb.where(xb.less(where, 0), count, where)
    return xb.at(xb.zeros((count + 1, *inner), dtype=x.dtype))[where].add(rows)[:count]


_MOST_ROWS = 64  # of a search, which is one op for each row


@row("LowerBound", "UpperBound")
def searchsorted(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """Positions in the sorted rows of a matrix."""
    side, dtype = "left" if operation.type == "LowerBound" else "right", held(operation.get_attr("out_type"))
    rows, wanted = map(array, values)
    if rows.shape[0] > _MOST_ROWS:
        raise GraphError(f"a search in {rows.shape[0]} rows has no row: there are at most {_MOST_ROWS}")
    found = [xb.searchsorted(rows[i], wanted[i], side=side) for i in range(rows.shape[0])]
    return xb.astype(xb.stack(found), dtype)


@row("Where", "Unique", "UniqueV2", "DynamicPartition", "NonMaxSuppressionV3", "ListDiff")
def of_values(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    raise GraphError(
        "the shape of its result depends on the values of the inputs, and a program's shapes are fixed: write tf.where "
        "with three arguments, a choice for each element"
    )
