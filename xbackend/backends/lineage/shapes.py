"""Shapes of the lineage's variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def shape_of(variable: Any) -> tuple[int, ...] | None:
    """The static shape of a variable, if all of it is known: of its type, or, for Theano and loops, in its tag."""
    noted = getattr(variable.tag, "lengths", None)
    known = (shape for shape in (getattr(variable.type, "shape", None), noted) if shape is not None)
    return next((tuple(shape) for shape in known if None not in shape), None)


def find_lengths(node: Any, inferred: Callable[[Any], Iterable[tuple[int, ...] | None]]) -> None:
    """Update the static shapes of an apply node's results from its inputs' shapes, else by ``inferred``: a gradient is
    built before its lengths are known, and cutting a graph into stages loses their computation."""
    if all(None not in getattr(v.type, "shape", ()) for v in node.outputs):
        return
    if hasattr(node.op, "outer_nitsot_outs"):
        # The shape of a state's memory is in its tag: the framework may shorten it, and read the last state of it.
        memories = (node.op.outer_mitmot, node.op.outer_mitsot, node.op.outer_sitsot)
        for v, memory in zip(node.outputs, [m for of in memories for m in of(node.inputs)], strict=False):
            v.tag.lengths = memory.type.shape
        for v, number in zip(node.op.outer_nitsot_outs(node.outputs), node.op.outer_nitsot(node.inputs), strict=True):
            if hasattr(number, "data"):
                v.type = v.type.clone(shape=(int(number.data), *v.type.shape[1:]))
        return
    for v, again in zip(node.outputs, node.op.make_node(*node.inputs).outputs, strict=True):
        v.type = again.type
    for v, shape in zip(node.outputs, inferred(node), strict=False):
        if shape is not None:
            v.type = v.type.clone(shape=shape)


def lengths(variable: Any) -> tuple[int, ...]:
    """The static shape of a variable; unknown lengths are `None`."""
    shape = shape_of(variable)
    return tuple(variable.type.shape) if shape is None else shape
