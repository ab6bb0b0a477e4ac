"""Loops and choices as JAX's own: `jax.lax.scan`, `while_loop` and `cond`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xbackend.program.program import Node, Program

# From a body to a function from its inputs to its outputs.
Compiler = Callable[[Program], Callable[..., Sequence[Any]]]


def _scan(jax: Any, node: Node, inputs: Sequence[Any], compiled: Compiler) -> Sequence[Any]:
    carries, function = node.params["carries"], compiled(node.params["body"])
    first_closed = carries + node.params["sequences"]
    init, xs, closed = inputs[:carries], inputs[carries:first_closed], inputs[first_closed:]

    def step(carry: Sequence[Any], x: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        results = function(*carry, *x, *closed)
        return list(results[:carries]), list(results[carries:])

    carry, ys = jax.lax.scan(step, list(init), list(xs), length=node.params["length"], reverse=node.params["reverse"])
    return [*carry, *ys]


def _while(jax: Any, node: Node, inputs: Sequence[Any], compiled: Compiler) -> Sequence[Any]:
    # No gradient goes through it, and JAX refuses even one that would be zero.
    given = [jax.lax.stop_gradient(value) for value in inputs]
    carries = node.params["carries"]
    condition, step = (compiled(node.params[name]) for name in ("condition", "body"))
    state, closed = given[:carries], given[carries:]
    return jax.lax.while_loop(  # type: ignore[no-any-return]
        lambda state: condition(*state, *closed)[0], lambda state: list(step(*state, *closed)), list(state)
    )


def _cond(jax: Any, node: Node, inputs: Sequence[Any], compiled: Compiler) -> Sequence[Any]:
    predicate, *values = inputs
    then, otherwise = (compiled(node.params[name]) for name in ("then", "otherwise"))
    return [*jax.lax.cond(predicate, lambda *x: list(then(*x)), lambda *x: list(otherwise(*x)), *values)]


ROWS: dict[str, Callable[..., Sequence[Any]]] = {"scan": _scan, "while_loop": _while, "cond": _cond}
