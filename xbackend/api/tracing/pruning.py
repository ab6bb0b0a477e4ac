"""What was written down of a function, without what nothing needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Nodes


def pruned(written: Nodes, kept: Iterable[int], results: Collection[int]) -> tuple[tuple[Node, ...], dict[int, int]]:
    """The nodes that ``kept`` values need, without those that change nothing, and the new number of each value.

    ``results`` are those of the function: each stays a value of its own. What changes nothing, but asks for another
    device than its input, becomes a transfer to there, so that what follows runs where it would have run. All gradients
    of a loss become one node, as they share a backward pass.
    """
    values, needed = written.values, bytearray(len(written.values))
    for i in kept:
        needed[i] = 1
    # What a gradient is taken with respect to is not the array that it was made of, nor is a result, with respect to
    # which another program may take one.
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
        inputs = [position[j] for j in node.inputs]
        outputs = left.add(op, inputs, params, node.results, device=node.device, source=node.source)
        position.update(zip(node.outputs, outputs, strict=True))
    return tuple(left.nodes), position


def _differentiate(left: Nodes, same: Sequence[Node], position: dict[int, int]) -> None:
    """The gradients of one loss as one node. What each is taken with respect to is older than the loss."""
    first = same[0]
    wrt = [position[i] for node in same for i in node.inputs[1:]]
    results = [result for node in same for result in node.results]
    inputs = [position[first.inputs[0]], *wrt]
    outputs = left.add("grad", inputs, {}, results, device=first.device, source=first.source)
    position.update(zip((i for node in same for i in node.outputs), outputs, strict=True))
