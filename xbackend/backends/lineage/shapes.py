"""Shapes of the lineage's variables."""

from __future__ import annotations

from typing import Any


def shape_of(variable: Any) -> tuple[int, ...] | None:
    """The shape of a variable, where all of it is known. The first generation's types hold none: there it is noted
    beside what a node was lowered to."""
    shape = variable.type.shape if hasattr(variable.type, "shape") else getattr(variable.tag, "lengths", None)
    return None if shape is None or None in shape else tuple(shape)


def lengths(variable: Any) -> tuple[int, ...]:
    """The shape of what a node was lowered to."""
    shape = variable.type.shape if hasattr(variable.type, "shape") else variable.tag.lengths
    return tuple(shape)
