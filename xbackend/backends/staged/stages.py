"""One graph over several devices.

Theano ran a graph over several devices; Aesara and PyTensor lost that with its GPU back end. An identity op that
names a source and a target device gives it back: devices follow the data from there, also through the gradient, whose
transfers run the other way; cutting the graph at the transfers gives stages, each of which is compiled for its device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xbackend.devices import Device
from xbackend.errors import PlacementError

Variable = Any  # of the framework
Part = tuple[int, bool, Device]  # the depth of a stage, whether no other device waits for it, and its own device


def transfer_op(op_class: type, apply_class: type) -> type:
    """The op that moves a value, as a class of the framework (its `Op` and `Apply` classes are given).

    ``Transfer(source, target)(x)`` is x on another device. It is never compiled: the graph is cut there.
    """

    class Transfer(op_class):  # type: ignore[misc]
        __props__ = ("source", "target")

        def __init__(self, source: Device, target: Device) -> None:
            self.source, self.target = source, target

        def make_node(self, x: Variable) -> Any:
            return apply_class(self, [x], [x.type()])

        def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
            raise PlacementError(f"{self} was compiled into a stage instead of being a cut between two")

        def infer_shape(self, *arguments: Any) -> Any:
            return arguments[-1]  # the lengths of its input; Theano gives no graph before them

        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
            return [type(self)(self.target, self.source)(cotangents[0])]

        L_op = pullback  # its name before PyTensor 3

    return Transfer


@dataclass(eq=False, slots=True)
class Stage:
    """A part of a graph that runs on one device, between transfers.

    It depends on stages of smaller depth only, and, if other devices wait for nothing that it computes, on the one of
    its depth and device for which they do.
    """

    depth: int
    device: Device
    inputs: list[Variable]
    outputs: list[Variable]


@dataclass(frozen=True, slots=True)
class Move:
    """A transfer between stages: ``source`` is copied to ``device`` and is ``target`` there."""

    source: Variable
    target: Variable
    device: Device


@dataclass(frozen=True)
class Plan:
    """Stages in an order in which they can run, the transfers between them, and the stage of every variable."""

    stages: tuple[Stage, ...]
    moves: tuple[Move, ...]
    stage_of: Mapping[Variable, Stage]


def toposort(outputs: Iterable[Variable], given: Collection[Variable] = ()) -> list[Any]:
    """The apply nodes that the outputs need, without those of what is given, each after those that it needs.

    It does not recurse, so a graph may have any length.
    """
    order, done = [], {v.owner for v in given}
    todo = [v.owner for v in outputs if v.owner is not None]
    todo.reverse()
    while todo:
        node = todo[-1]
        missing = [] if node in done else [v.owner for v in node.inputs if v.owner is not None and v.owner not in done]
        if missing:
            todo.extend(reversed(missing))
            continue
        todo.pop()
        if node not in done:
            done.add(node)
            order.append(node)
    return order


def cut(sources: Mapping[Variable, Device], outputs: Sequence[tuple[Variable, Device]], transfer: Any) -> Plan:
    """Cut the graph that computes the outputs into stages.

    ``sources`` are the variables that get their values from outside, and the devices these are on. ``outputs`` come
    with the device that they are wanted on, which decides for those that depend on no source. Ops that depend on
    constants only belong to every stage that uses them. What another device waits for is a stage of its own, so that
    this does not wait for the rest. Raises `PlacementError` where an op has inputs on two devices.
    """
    place: dict[Variable, tuple[int, Device]] = {v: (0, device) for v, device in sources.items()}
    order, entries = toposort([v for v, _ in outputs]), set(sources)
    for node in order:
        places = [place[v] for v in node.inputs if v in place]
        if isinstance(node.op, transfer):
            source, op = node.inputs[0], node.op
            place.setdefault(source, (0, op.source))  # if it depends on constants only
            place[node.outputs[0]] = (place[source][0] + 1, op.target)
            entries.add(node.outputs[0])
        elif places:
            devices = {device for _, device in places}
            if len(devices) > 1:
                raise PlacementError(f"{node} has inputs on {', '.join(map(str, devices))}: a transfer is missing")
            place.update(dict.fromkeys(node.outputs, (max(depth for depth, _ in places), places[0][1])))
    for variable, device in outputs:
        place.setdefault(variable, (0, device))

    awaited = _awaited(order, place, entries, transfer)

    def part(variable: Variable) -> Part:
        depth, device = place[variable]
        computed = variable not in entries and variable.owner is not None  # neither given nor a constant that is moved
        return depth, computed and variable.owner not in awaited, device

    needed: dict[Part, dict[Variable, None]] = defaultdict(dict)  # what a stage takes
    given: dict[Part, dict[Variable, None]] = defaultdict(dict)  # and what it gives

    def give(variable: Variable) -> None:
        if variable not in entries:
            given[part(variable)][variable] = None

    moves = []
    for node in order:
        if isinstance(node.op, transfer):
            moves.append(Move(node.inputs[0], node.outputs[0], node.op.target))
            give(node.inputs[0])
        elif node.outputs[0] in place:
            here = part(node.outputs[0])
            for v in node.inputs:
                if v in place and (v in entries or part(v) != here):
                    needed[here][v] = None
                    give(v)
    for variable, _ in outputs:
        give(variable)
    keys = sorted({*map(part, place)}, key=lambda key: (*key[:2], str(key[2])))
    stages = {key: Stage(key[0], key[2], list(needed[key]), list(given[key])) for key in keys}
    giving = tuple(stage for stage in stages.values() if stage.outputs)
    return Plan(giving, tuple(moves), {v: stages[part(v)] for v in place})


def _awaited(
    order: Sequence[Any], place: Mapping[Variable, tuple[int, Device]], entries: Collection[Variable], transfer: Any
) -> set[Any]:
    """The apply nodes, between two transfers, that what is transferred to another device is computed by."""
    awaited: set[Any] = set()
    for node in reversed(order):
        if not isinstance(node.op, transfer) and node not in awaited:
            continue
        here = place.get(node.inputs[0] if isinstance(node.op, transfer) else node.outputs[0])
        own = (v for v in node.inputs if v not in entries and v.owner is not None)
        awaited.update(v.owner for v in own if place.get(v) == here)
    return awaited
