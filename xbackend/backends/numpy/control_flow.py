"""Loops and choices on NumPy: Python's own, with a function for each body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xbackend.program.program import Node, Program

Function = Callable[..., Any]
# From a body to a function from its inputs to its outputs.
Compiler = Callable[[Program], Callable[..., Sequence[Any]]]

# The framework's op in a record of placement.
NAMES = {"scan": "loop of Python", "while_loop": "loop of Python", "cond": "if of Python"}


def _scan(xp: Any, node: Node, compiled: Compiler) -> Function:
    """For autograd only: `Linker.loop` writes the loop of the forward pass."""
    body, length = node.params["body"], node.params["length"]
    step, carries = compiled(body), node.params["carries"]
    first_closed = carries + node.params["sequences"]
    order = range(length)[::-1] if node.params["reverse"] else range(length)

    def scan(*values: Any) -> list[Any]:
        xs, closed = values[carries:first_closed], values[first_closed:]
        carry: Sequence[Any] = values[:carries]
        made: list[Sequence[Any]] = []
        for i in order:
            results = step(*carry, *[x[i] for x in xs], *closed)
            carry = results[:carries]
            made.append(results[carries:])
        if node.params["reverse"]:
            made.reverse()
        return [*carry, *(xp.stack(y) for y in zip(*made, strict=True))]

    return scan


def _numbers(values: Sequence[Any]) -> list[Any]:
    """The arrays, those of rank 0 as NumPy scalars, which are several times as fast."""
    return [value[()] for value in values]


def _while(xp: Any, node: Node, compiled: Compiler) -> Function:
    condition, step = (compiled(node.params[name]) for name in ("condition", "body"))
    carries = node.params["carries"]

    def loop(*values: Any) -> Sequence[Any]:
        if xp is not np:  # no gradient goes through it
            from autograd.tracer import getval

            values = tuple(map(getval, values))
        closed = _numbers(values[carries:])
        state: Sequence[Any] = _numbers(values[:carries])
        while condition(*state, *closed)[0]:
            state = step(*state, *closed)
        return [*map(np.asarray, state)]

    return loop


def _cond(xp: Any, node: Node, compiled: Compiler) -> Function:
    then, otherwise = (compiled(node.params[name]) for name in ("then", "otherwise"))

    def choice(predicate: Any, *values: Any) -> Sequence[Any]:
        return then(*values) if predicate else otherwise(*values)

    return choice if xp is not np else lambda *values: [*map(np.asarray, choice(*values))]


ROWS: dict[str, Callable[[Any, Node, Compiler], Function]] = {"scan": _scan, "while_loop": _while, "cond": _cond}
"""From ``xp`` (numpy or autograd.numpy) and a node to the function from its inputs to all its results."""
