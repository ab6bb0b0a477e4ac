"""The one way to walk a program: the values of its nodes, one after the other, by the rules of an adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from xbackend.program.program import Node, Program

Values = dict[int, Any]  # by the number of the value
# All results of a node, from its inputs.
Rule = Callable[[Node, Sequence[Any]], Sequence[Any]]
# All gradients of a node, from the values so far. It may replace values before it by equal ones.
GradientRule = Callable[[Node, Values], Sequence[Any]]


def evaluate(
    nodes: Iterable[Node],
    values: Values,
    rule: Rule,
    gradient: GradientRule,
    made: Callable[[int, Any], Any] = lambda i, result: result,
) -> None:
    """Compute these nodes, in this order, and add their results to ``values``.

    A result that is there stays, and a node that has all of its results is not computed. ``made`` may replace a new
    result, given its number. Raises what the rules raise.
    """
    for node in nodes:
        if all(i in values for i in node.outputs):
            continue
        is_gradient = node.op == "grad"
        results = gradient(node, values) if is_gradient else rule(node, [values[j] for j in node.inputs])
        values.update({i: made(i, result) for i, result in zip(node.outputs, results, strict=True) if i not in values})


def nodes_of(program: Program, values: Collection[int]) -> list[Node]:
    """The nodes that some of these values are results of, in their order."""
    return [node for node in program.nodes if any(i in values for i in node.outputs)]
