"""Static analyses of a program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xbackend.program.ops import OPS, SOURCES
from xbackend.program.program import Node, Program, Value


def reached(
    values: Sequence[Value], starts: Iterable[int], follow: Callable[[Value], Iterable[int]], known: Iterable[int] = ()
) -> set[int]:
    """The ``known`` values, and those found by a search from ``starts`` that stops at known ones. ``follow`` gives the
    next values of a value."""
    found, todo = set(known), list(starts)
    while todo:
        i = todo.pop()
        if i not in found:
            found.add(i)
            todo += follow(values[i])
    return found


def needed(program: Program) -> set[int]:
    """The values that outputs and updates are computed from. The search stops at gradients."""
    results = (*program.outputs, *program.updates.values())
    return reached(program.values, results, lambda value: value.inputs if value.op != "grad" else ())


def predecessors(program: Program, values: Iterable[int], known: Iterable[int] = ()) -> set[int]:
    """These values, all their predecessors, and the ``known`` values, whose own predecessors are left out."""
    return reached(program.values, values, lambda value: value.inputs, known)


def constant(program: Program) -> set[int]:
    """The values that depend neither on an argument nor on a shared variable."""
    constants: set[int] = set()
    for node in program.nodes:
        if node.op not in ("input", "shared") and constants.issuperset(node.inputs):
            constants.update(node.outputs)
    return constants


def everywhere(program: Program) -> Iterator[Node]:
    """The nodes of the program, and of the bodies of its loops and choices."""
    for node in program.nodes:
        yield node
        for body in node.bodies.values():
            yield from everywhere(body)


def may_refuse(program: Program) -> bool:
    """Whether some framework may raise an error for the numbers of an op, bodies of loops and choices included."""
    return any(OPS[node.op].refuses for node in everywhere(program))


def has_gradients(program: Program) -> bool:
    """Whether the program takes a gradient, bodies of loops and choices included."""
    return any(node.op == "grad" for node in everywhere(program))


def computes_integers(program: Program) -> bool:
    """Whether it computes signed integers, which can overflow, bodies of loops and choices included."""
    made = (aval.dtype for node in everywhere(program) if node.op not in SOURCES for aval in node.results)
    return any(dtype.is_integer and not dtype.is_unsigned for dtype in made)


def between(program: Program, loss: int, wrt: Collection[int]) -> tuple[list[int], set[int]]:
    """The values on a path from ``wrt`` to the loss, in order, and the members of ``wrt`` that depend on other ones."""
    values = program.values
    depends, dependent = set(wrt), set[int]()
    for i in range(min(wrt) + 1, loss + 1):
        if any(j in depends for j in values[i].inputs):
            depends.add(i)
            if i in wrt:
                dependent.add(i)
    values_between, todo = set[int](), [loss]
    while todo:
        i = todo.pop()
        if i in depends and i not in values_between:
            values_between.add(i)
            if i not in wrt or i in dependent:
                todo.extend(values[i].inputs)
    return sorted(values_between), dependent


def orders_through_loops(program: Program) -> list[int]:
    """For each value, the number of nested gradients through a scan; -1 where no scan is among its predecessors."""
    orders: list[int] = []
    for node in program.nodes:
        order = max((orders[j] for j in node.inputs), default=-1)
        for body in node.bodies.values():
            order = max(order, *orders_through_loops(body), 0 if node.op == "scan" else -1)
        if node.op == "grad" and orders[node.inputs[0]] >= 0:
            loss, *wrt = node.inputs
            through = max((orders[j] for j in between(program, loss, wrt)[0]), default=-1)
            order = max(orders[loss], through + 1 if through >= 0 else -1)
        orders += [order] * len(node.outputs)
    return orders


def most_carried(program: Program) -> int:
    """The largest number of carries of a loop in the program."""
    return max((node.params.get("carries", 0) for node in everywhere(program)), default=0)


def replayed(program: Program, loss: int, wrt: Collection[int]) -> set[int]:
    """The values that a gradient reads: ``wrt``, and all other inputs of the path to the loss, which is recomputed."""
    again, dependent = between(program, loss, wrt)
    found = set(wrt)
    for i in again:
        value = program.values[i]
        if value.op == "grad":
            found |= replayed(program, value.inputs[0], value.inputs[1:])
        elif i not in wrt or i in dependent:
            found.update(value.inputs)
    return found - (set(again) - set(wrt))


@dataclass(frozen=True, slots=True)
class Step:
    """The outputs of a node, the values that it reads, and which of both are dead after it."""

    makes: tuple[int, ...]
    reads: tuple[int, ...]
    last: tuple[int, ...]


def steps(program: Program) -> list[Step]:
    """The steps of the program, in the order of its nodes. Sources need no step."""
    computed: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for node in program.nodes:
        if node.op == "grad":
            loss, *wrt = node.inputs
            computed.append((node.outputs, tuple(sorted(replayed(program, loss, wrt)))))
        elif node.op not in SOURCES:
            computed.append((node.outputs, node.inputs))
    last = last_uses([(*makes, *reads) for makes, reads in computed], {*program.outputs, *program.updates.values()})
    return [Step(makes, reads, mine) for (makes, reads), mine in zip(computed, last, strict=True)]


def last_uses(used: Sequence[Iterable[int]], kept: Iterable[int]) -> list[tuple[int, ...]]:
    """Liveness: ``used`` has the values that each step reads or makes. Returns the values that are dead after each
    step: no later step uses them, and they are not ``kept``. Their memory is freed then, as early as in a user's code.
    """
    alive, dying = set(kept), []
    for mine in map(set, reversed(used)):
        dying.append(tuple(sorted(mine - alive)))
        alive |= mine
    return dying[::-1]
