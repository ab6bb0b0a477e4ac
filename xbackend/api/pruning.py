"""What was written down of a function, without what nothing needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node


def pruned(
    nodes: Sequence[Node], kept: Iterable[int], results: Collection[int]
) -> tuple[tuple[Node, ...], dict[int, int]]:
    """The nodes that ``kept`` ones need, without those that change nothing, and where each of them is now.

    ``results`` are those of the function: each stays a node of its own. What changes nothing, but asks for another
    device than its input, becomes a transfer to there, so that what follows runs where it would have run.
    """
    needed = bytearray(len(nodes))
    for i in kept:
        needed[i] = 1
    # What a gradient is taken with respect to is not the array that it was made of, nor is a result, with respect to
    # which another program may take one.
    own = set(results)
    for i in range(len(nodes) - 1, -1, -1):
        if needed[i]:
            for j in nodes[i].inputs:
                needed[j] = 1
            if nodes[i].op == "grad":
                own.add(nodes[i].inputs[1])
    position: dict[int, int] = {}
    left: list[Node] = []
    for i, node in enumerate(nodes):
        if needed[i]:
            if node.op == "reshape" and node.shape == nodes[node.inputs[0]].shape and i not in own:
                source = position[node.inputs[0]]
                if node.device in (None, left[source].device if left[source].op not in GENERATORS else None):
                    position[i] = source
                    continue
                node = replace(node, op="transfer", params={})
            position[i] = len(left)
            moved = tuple([position[j] for j in node.inputs])
            if moved != node.inputs:
                node = Node(node.op, moved, node.params, node.shape, node.dtype, node.device, node.source)
            left.append(node)
    return tuple(left), position
