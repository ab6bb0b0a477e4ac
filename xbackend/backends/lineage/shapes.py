"""Shapes of the lineage's variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def shape_of(variable: Any) -> tuple[int, ...] | None:
    """The shape of a variable, where all of it is known. The first generation's types hold none: there it is noted
    beside what a node was lowered to."""
    shape = variable.type.shape if hasattr(variable.type, "shape") else getattr(variable.tag, "lengths", None)
    return None if shape is None or None in shape else tuple(shape)


def find_lengths(order: Iterable[Any]) -> None:
    """Note in the types of these apply nodes' results what follows from the types of their inputs by now. A gradient
    is written down before its lengths are known, and a graph that is cut into stages loses how they are computed."""
    for node in order:
        if all(None not in getattr(v.type, "shape", ()) for v in node.outputs):
            continue
        if hasattr(node.op, "outer_nitsot_outs"):
            for v in node.outputs:
                v.type = v.type.clone(shape=(_steps(v), *v.type.shape[1:]))
        else:
            for v, again in zip(node.outputs, node.op.make_node(*node.inputs).outputs, strict=True):
                v.type = again.type


def _steps(variable: Any) -> int | None:
    """The length of the first axis of what a loop gives: that of the memory that it is given for a state, else a number
    that it takes."""
    node, op = variable.owner, variable.owner.op
    made = op.outer_nitsot_outs(node.outputs)
    if variable in made:
        number = op.outer_nitsot(node.inputs)[made.index(variable)]
        return int(number.data) if hasattr(number, "data") else None
    length: int | None = node.inputs[1 + op.info.n_seqs + node.outputs.index(variable)].type.shape[0]
    return length


def lengths(variable: Any) -> tuple[int, ...]:
    """The shape of what a node was lowered to."""
    shape = variable.type.shape if hasattr(variable.type, "shape") else variable.tag.lengths
    return tuple(shape)
