"""Shapes of the lineage's variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def shape_of(variable: Any) -> tuple[int, ...] | None:
    """The shape of a variable, where all of it is known. The first generation's types hold none: there it is noted
    beside what a node was lowered to, as is that of the memory of a loop."""
    noted = getattr(variable.tag, "lengths", None)
    known = (shape for shape in (getattr(variable.type, "shape", None), noted) if shape is not None)
    return next((tuple(shape) for shape in known if None not in shape), None)


def find_lengths(node: Any, inferred: Callable[[Any], Iterable[tuple[int, ...] | None]]) -> None:
    """Note in the types of an apply node's results what follows from the types of its inputs by now. A gradient
    is written down before its lengths are known, and a graph that is cut into stages loses how they are computed.
    ``inferred`` tells shapes that the framework does not note itself."""
    if all(None not in getattr(v.type, "shape", ()) for v in node.outputs):
        return
    if hasattr(node.op, "outer_nitsot_outs"):
        # The memory of a state is none of these: the framework makes it shorter where it needs less, and what reads
        # the last state of a type that says its length would read another one. Who asks for its shape gets numbers.
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
    """The shape of what a node was lowered to."""
    shape = shape_of(variable)
    return tuple(variable.type.shape) if shape is None else shape
