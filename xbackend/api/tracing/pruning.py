"""Removal of dead and trivial nodes from a traced function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Nodes


def pruned(written: Nodes, kept: Iterable[int], results: Collection[int]) -> tuple[Nodes, dict[int, int]]:
    """The nodes that the ``kept`` values need, without trivial reshapes, and the new number of each value.

    Each of the function's ``results`` stays a separate value. A trivial reshape to another device becomes a transfer,
    so that its successors stay there. All gradients of a loss become one node, as they share a backward
    pass.
    """
    values, needed = written.values, bytearray(len(written.values))
    for i in kept:
        needed[i] = 1
    # Targets of gradients stay separate from the arrays they copy. So do results, perhaps targets in another program.
    own, live = set(results), list[Node]()
    for node in reversed(written.nodes):
        if any(needed[i] for i in node.outputs):
            live.append(node)
            for j in node.inputs:
                needed[j] = 1
            if node.op == "grad":
                own.update(node.inputs[1:])
    gradients: dict[int, list[Node]] = {}
    for node in reversed(live):
        if node.op == "grad":
            gradients.setdefault(node.inputs[0], []).append(node)
    position: dict[int, int] = {}
    left = Nodes()
    for node in reversed(live):
        if node.op == "grad":
            if node.outputs[0] not in position:
                _differentiate(left, gradients[node.inputs[0]], position)
            continue
        op, params, (first, *_) = node.op, node.params, node.outputs
        if op == "reshape" and first not in own and node.results[0] == values[node.inputs[0]].aval:
            source = position[node.inputs[0]]
            before = left.values[source]
            if node.device in (None, before.device if before.op not in GENERATORS else None):
                position[first] = source
                continue
            op, params = "transfer", {}
        inputs = tuple([position[j] for j in node.inputs])
        if first == len(left.values) and inputs == node.inputs and op == node.op:
            left.append(node)
            position.update(zip(node.outputs, node.outputs, strict=True))
            continue
        outputs = left.add(op, inputs, params, node.results, device=node.device, source=node.source)
        position.update(zip(node.outputs, outputs, strict=True))
    return left, position


def _differentiate(left: Nodes, same: Sequence[Node], position: dict[int, int]) -> None:
    """Add the gradients of one loss as one node. Their targets come before the loss."""
    first = same[0]
    wrt = [position[i] for node in same for i in node.inputs[1:]]
    results = [result for node in same for result in node.results]
    inputs = [position[first.inputs[0]], *wrt]
    outputs = left.add("grad", inputs, {}, results, device=first.device, source=first.source)
    position.update(zip((i for node in same for i in node.outputs), outputs, strict=True))
