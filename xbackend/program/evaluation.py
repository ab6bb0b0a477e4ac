"""The one evaluator of programs: it computes node after node by the rules of an adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from xbackend.program.program import Node, Program

Values = dict[int, Any]  # by the number of the value
# All results of a node, from its inputs.
Rule = Callable[[Node, Sequence[Any]], Sequence[Any]]
# All results of a gradient node, from the values so far. It may replace earlier values by equal ones.
GradientRule = Callable[[Node, Values], Sequence[Any]]


def evaluate(
    nodes: Iterable[Node],
    values: Values,
    rule: Rule,
    gradient: GradientRule,
    made: Callable[[int, Any], Any] | None = None,
) -> None:
    """Compute these nodes in order and add their results to ``values``.

    Results that are in ``values`` already stay; a node with all of them there is skipped. ``made`` maps the number of a
    new result and the result to the one to keep. Raises what the rules raise.
    """
    for node in nodes:
        missing = [i for i in node.outputs if i not in values]
        if not missing:
            continue
        is_gradient = node.op == "grad"
        results = gradient(node, values) if is_gradient else rule(node, [values[j] for j in node.inputs])
        for i, result in zip(node.outputs, results, strict=True):
            if i in missing:
                values[i] = result if made is None else made(i, result)


def nodes_of(program: Program, values: Collection[int]) -> list[Node]:
    """The nodes that make any of these values, in program order."""
    return [node for node in program.nodes if any(i in values for i in node.outputs)]
