"""Softmax and the cross-entropy of labels, and the ops that some generations have for their gradients."""

from __future__ import annotations

from typing import Any

import xbackend.api.functions as xb
from xbackend.bring import scalars
from xbackend.bring.lineage.arrays import inner_graph
from xbackend.bring.lineage.walk import LineageWalk, row
from xbackend.program.dtypes import DType


@row("Softmax", "LogSoftmax", props="axis")
def softmax(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    if hasattr(node.op, "fgraph"):
        return inner_graph(walk, node, values)
    of = scalars.softmax if type(node.op).__name__ == "Softmax" else scalars.log_softmax
    return of(walk.array(node.inputs[0]), getattr(node.op, "axis", -1))


@row("SoftmaxGrad", props="axis")
def softmax_gradient(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    slope, softmax = map(walk.array, node.inputs)
    each = xb.multiply(slope, softmax)
    summed = xb.sum(each, axis=getattr(node.op, "axis", -1), keepdims=True)
    return xb.subtract(each, xb.multiply(summed, softmax))


@row("CrossentropyCategorical1Hot")
def entropy(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    probabilities, labels = map(walk.array, node.inputs)
    own = xb.take_along_axis(probabilities, _column(labels), axis=1)
    return xb.negative(xb.log(xb.squeeze(own, axis=1)))


@row("CrossentropyCategorical1HotGrad")
def entropy_gradient(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    slope, probabilities, labels = map(walk.array, node.inputs)
    own = xb.equal(xb.arange(probabilities.shape[1], dtype=DType.int64), _column(labels))
    each = xb.negative(xb.divide(xb.expand_dims(slope, axis=1), probabilities))
    return xb.where(own, each, xb.zeros_like(probabilities))


def _column(labels: Any) -> Any:
    return xb.expand_dims(xb.astype(labels, DType.int64), axis=1)
