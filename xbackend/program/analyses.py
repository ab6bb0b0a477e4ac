"""What can be said of the nodes of a program without executing it."""

from __future__ import annotations

from xbackend.program.program import Program


def needed(program: Program) -> set[int]:
    """The nodes whose values the outputs and updates are computed from; a gradient needs its loss's inputs at most."""
    found = {*program.outputs, *program.updates.values()}
    todo = list(found)
    while todo:
        node = program.nodes[todo.pop()]
        for i in node.inputs if node.op != "grad" else ():
            if i not in found:
                found.add(i)
                todo.append(i)
    return found


def constant(program: Program) -> set[int]:
    """The nodes whose value depends neither on an argument nor on a shared variable."""
    found: set[int] = set()
    for i, node in enumerate(program.nodes):
        if node.op not in ("input", "shared") and found.issuperset(node.inputs):
            found.add(i)
    return found


def gradients(program: Program) -> dict[int, list[int]]:
    """The gradient nodes of each loss: they share a backward pass."""
    groups: dict[int, list[int]] = {}
    for i, node in enumerate(program.nodes):
        if node.op == "grad":
            groups.setdefault(node.inputs[0], []).append(i)
    return groups


def between(program: Program, loss: int, wrt: set[int]) -> tuple[list[int], set[int]]:
    """The nodes that depend on ``wrt`` and that the loss depends on, in order; those of ``wrt`` that depend on
    others of it."""
    nodes = program.nodes
    depends, dependent = set(wrt), set()
    for i in range(min(wrt) + 1, loss + 1):
        if any(j in depends for j in nodes[i].inputs):
            depends.add(i)
            if i in wrt:
                dependent.add(i)
    needed, todo = set(), [loss]
    while todo:
        i = todo.pop()
        if i in depends and i not in needed:
            needed.add(i)
            if i not in wrt or i in dependent:
                todo.extend(nodes[i].inputs)
    return sorted(needed), dependent
