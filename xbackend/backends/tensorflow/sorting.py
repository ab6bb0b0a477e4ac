"""Sorting and searching lowered to TensorFlow's ops, as in `ops`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xbackend.backends.rows import LoweringRow
from xbackend.program.program import Node


def _keys(tf: Any, x: Any) -> Any:
    """Integer keys in the order of the numbers, NaN last: the bits, of negative numbers inverted below the sign."""
    if not x.dtype.is_floating:
        return x
    whole = tf.int32 if x.dtype == tf.float32 else tf.int64
    x = tf.where(tf.math.is_nan(x), tf.constant(np.nan, x.dtype), x)
    x = tf.where(tf.equal(x, 0), tf.zeros((), x.dtype), x)  # the zeros are equal
    bits = tf.bitcast(x, whole)
    return tf.where(bits < 0, tf.bitwise.bitwise_xor(bits, tf.constant(whole.max, whole)), bits)


def _order(tf: Any, x: Any) -> Any:
    """A stable argsort along the last axis, NaN last, by TensorFlow's only such op: `TopKV2`, the largest first."""
    if not x.shape[-1]:
        return tf.cast(x, tf.int32)  # of the input, so that its transfer is executed
    return tf.math.top_k(tf.bitwise.invert(_keys(tf, x)), x.shape[-1]).indices


def last(tf: Any, x: Any, axis: int) -> Any:
    """The array with ``axis`` and the last axis exchanged."""
    rank = len(x.shape)
    if axis == rank - 1:
        return x
    order = [*range(rank)]
    order[axis], order[-1] = order[-1], order[axis]
    return tf.transpose(x, order)


def _sort(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    axis, rank = node.params["axis"], len(node.shape)
    x = last(tf, inputs[0], axis)
    return last(tf, tf.gather(x, _order(tf, x), axis=rank - 1, batch_dims=rank - 1), axis)


def _argsort(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    axis = node.params["axis"]
    return tf.cast(last(tf, _order(tf, last(tf, inputs[0], axis)), axis), tf.int64)


def _searchsorted(tf: Any, node: Node, inputs: Sequence[Any], xla: bool) -> Any:
    name = "UpperBound" if node.params["right"] else "LowerBound"
    vector, values = (tf.reshape(_keys(tf, x), [1, -1]) for x in inputs)
    return tf.reshape(getattr(tf.raw_ops, name)(sorted_inputs=vector, values=values, out_type=tf.int64), node.shape)


ROWS: Mapping[str, LoweringRow] = {"sort": _sort, "argsort": _argsort, "searchsorted": _searchsorted}
