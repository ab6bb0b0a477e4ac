"""Fewer ops: an earlier output, numbers or an operand in place of a result, a body in place of a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xbackend.program.analyses import between
from xbackend.program.ops import SOURCES
from xbackend.program.program import Node, Nodes
from xbackend.program.smaller.changing import Inlined, changed
from xbackend.program.smaller.example import Example

MOST = 24  # values that are tried in place of an output


def without_state(example: Example) -> Iterator[Example | None]:
    """No updates, arguments in place of shared variables, and no devices."""
    if example.program.updates:
        yield changed(example, updated=False)
    if example.program.shared:
        yield changed(example, given={i: one.value for i, one in example.program.shared.items()})
    if any(node.device for node in example.program.nodes):
        yield changed(example, placed=False)


def other_ends(example: Example) -> Iterator[Example | None]:
    """One output of several, or an earlier result in its place: from the middle first, then its operands."""
    program = example.program
    if len(program.outputs) > 1:
        for i in program.outputs:
            yield changed(example, outputs=[i])
        return
    (end,) = program.outputs
    before = [i for i, value in enumerate(program.values[:end]) if value.op not in SOURCES]
    for i in _by_halves(before)[:MOST]:
        yield changed(example, outputs=[i])
    for i in sorted({*program.values[end].inputs} & {*before}, reverse=True):
        yield changed(example, outputs=[i])


def _by_halves(values: Sequence[int]) -> list[int]:
    """The value in the middle, then at the quarters, and so on."""
    order, step = list[int](), len(values) // 2
    while step:
        order += values[step::step]
        step //= 2
    return list(dict.fromkeys(order))


def nearer_targets(example: Example, known: Mapping[int, np.ndarray]) -> Iterator[Example | None]:
    """The gradient with respect to a value on the path to the loss, in place of an argument."""
    program, end = example.program, example.program.outputs[0]
    if len(program.outputs) > 1 or program.values[end].op != "grad":
        return
    loss, *wrt = program.values[end].inputs
    way = [i for i in between(program, loss, wrt)[0] if i != loss and program.values[i].op not in SOURCES]
    for i in _by_halves(way)[:MOST] or way:
        nodes, aval = Nodes(program.nodes), program.values[i].aval
        outputs = nodes.add("grad", (loss, i), {}, (aval,), source=program.values[end].source)
        more = nodes.program(program.name, program.inputs, outputs, "*", program.shared, {})
        yield changed(Example(more, example.arrays), given={i: known[i]})


def numbers_given(example: Example, known: Mapping[int, np.ndarray]) -> Iterator[Example | None]:
    """Numbers in place of results: of all nodes, of each half, each quarter, and so on to each alone."""
    program = example.program
    end = set(program.outputs)
    nodes = [node for node in program.nodes if node.op not in SOURCES and end.isdisjoint(node.outputs)]
    size = len(nodes)
    yield from nearer_targets(example, known)
    while size:
        for first in range(0, len(nodes), size):
            part = nodes[first : first + size]
            yield changed(example, given={i: known[i] for node in part for i in node.outputs})
        size //= 2


def operands(example: Example) -> Iterator[Example | None]:
    """An operand of the same shape and dtype in place of a result."""
    program = example.program
    for node in reversed(program.nodes):
        if len(node.outputs) == 1 and node.op not in SOURCES:
            for j in dict.fromkeys(node.inputs):
                if program.values[j].aval == node.aval:
                    yield changed(example, alias={node.outputs[0]: j})


def undone(example: Example) -> Iterator[Example | None]:
    """A branch in place of a choice, the body in place of a loop of one step, or of a `while_loop`."""
    for node in example.program.nodes:
        for body in _bodies(node):
            yield changed(example, inlined={node.outputs[0]: body})


def _bodies(node: Node) -> Sequence[Inlined]:
    if node.op == "cond":
        return [(node.params[branch], node.inputs[1:]) for branch in ("then", "otherwise")]
    if node.op == "while_loop" or (node.op == "scan" and node.params["length"] == 1):
        return [(node.params["body"], node.inputs)]
    return []
