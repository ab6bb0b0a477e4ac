"""Shapes of the lineage's variables."""

from __future__ import annotations

from typing import Any


def shape_of(variable: Any) -> tuple[int, ...] | None:
    """The shape of a variable, where all of it is known. The first generation's types hold none: there it is noted
    beside what a node was lowered to."""
    shape = variable.type.shape if hasattr(variable.type, "shape") else getattr(variable.tag, "lengths", None)
    if shape is not None and shape[:1] == (None,) and hasattr(getattr(variable.owner, "op", None), "outer_nitsot_outs"):
        shape = (_steps(variable), *shape[1:])
    return None if shape is None or None in shape else tuple(shape)


def _steps(variable: Any) -> int | None:
    """The length of the first axis of what a loop gives, which its type does not say: that of the memory that it is
    given for a state, else a number that it takes."""
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
