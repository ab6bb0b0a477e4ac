"""One graph of the Theano lineage over several devices.

Theano ran a graph over several devices; Aesara and PyTensor lost that with its GPU back end. An identity op that
names a source and a target device gives it back: devices follow the data from there, also through the gradient, whose
transfers run the other way; cutting the graph at the transfers gives stages, each of which is compiled for its device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xbackend.devices import Device
from xbackend.errors import PlacementError

Variable = Any  # of the framework
Value = Any


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

        def infer_shape(self, fgraph: Any, node: Any, shapes: Any) -> Any:
            return shapes

        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
            return [Transfer(self.target, self.source)(cotangents[0])]

        L_op = pullback  # its name before PyTensor 3

    return Transfer


@dataclass(eq=False, slots=True)
class Stage:
    """A part of a graph that runs on one device, between transfers: depends on nothing of its depth or deeper."""

    depth: int
    device: Device
    inputs: list[Variable] = field(default_factory=list)
    outputs: list[Variable] = field(default_factory=list)


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


def _toposort(outputs: Iterable[Variable]) -> list[Any]:
    """The apply nodes that the outputs need, each after those it needs; no recursion, so any length of graph."""
    order, done = [], set()
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
    constants only belong to every stage that uses them. Raises `PlacementError` where an op has inputs on two devices.
    """
    place: dict[Variable, tuple[int, Device]] = {v: (0, device) for v, device in sources.items()}
    order = _toposort([v for v, _ in outputs])
    entries = set(sources)
    for node in order:
        found = [place[v] for v in node.inputs if v in place]
        if isinstance(node.op, transfer):
            source, op = node.inputs[0], node.op
            place.setdefault(source, (0, op.source))  # if it depends on constants only
            place[node.outputs[0]] = (place[source][0] + 1, op.target)
            entries.add(node.outputs[0])
        elif found:
            devices = {device for _, device in found}
            if len(devices) > 1:
                raise PlacementError(f"{node} has inputs on {', '.join(map(str, devices))}: a transfer is missing")
            place.update(dict.fromkeys(node.outputs, (max(depth for depth, _ in found), found[0][1])))
    for variable, device in outputs:
        place.setdefault(variable, (0, device))
    return _assemble(order, place, entries, [v for v, _ in outputs], transfer)


def _assemble(
    order: Sequence[Any],
    place: Mapping[Variable, tuple[int, Device]],
    entries: set[Variable],
    outputs: Sequence[Variable],
    transfer: Any,
) -> Plan:
    stages: dict[tuple[int, Device], Stage] = {}
    needed: dict[Stage, dict[Variable, None]] = {}
    given: dict[Stage, dict[Variable, None]] = {}

    def stage(variable: Variable) -> Stage:
        key = place[variable]
        if key not in stages:
            stages[key] = Stage(*key)
            needed[stages[key]], given[stages[key]] = {}, {}
        return stages[key]

    moves = []
    for node in order:
        if isinstance(node.op, transfer):
            moves.append(Move(node.inputs[0], node.outputs[0], node.op.target))
            if node.inputs[0] not in entries:
                given[stage(node.inputs[0])][node.inputs[0]] = None
        elif node.outputs[0] in place:
            here = stage(node.outputs[0])
            for v in node.inputs:
                if v in place and (v in entries or stage(v) is not here):
                    needed[here][v] = None
                    if v not in entries:
                        given[stage(v)][v] = None
    for variable in outputs:
        if variable not in entries:
            given[stage(variable)][variable] = None
    for s in stages.values():
        s.inputs, s.outputs = list(needed[s]), list(given[s])
    ordered = sorted((s for s in stages.values() if s.outputs), key=lambda s: (s.depth, str(s.device)))
    return Plan(tuple(ordered), tuple(moves), {v: stages[key] for v, key in place.items() if key in stages})


@dataclass(eq=False, slots=True)
class _Step:
    call: Callable[..., Sequence[Value]]
    inputs: list[int]
    outputs: list[int]
    moves: list[tuple[int, int, Device]]


class StageRunner:
    """Runs the compiled stages of a plan, each value in a numbered slot.

    ``move(value, device)`` copies a value to another device without waiting for it; ``seen`` is told, after the first
    run, the values of all variables that were computed or moved.
    """

    def __init__(
        self,
        plan: Plan,
        calls: Sequence[Callable[..., Sequence[Value]]],
        sources: Sequence[Variable],
        outputs: Sequence[Variable],
        *,
        move: Callable[[Value, Device], Value],
        seen: Callable[[Mapping[Variable, Value]], None],
    ) -> None:
        self._slots: dict[Variable, int] = {}
        for variable in sources:
            self._slot(variable)
        self._move, self._seen, self._first = move, seen, True
        self._start, pending = self._ready(set(sources), list(plan.moves))
        self._steps = []
        available = set(sources) | {m.target for m in plan.moves if m not in pending}
        for stage, call in zip(plan.stages, calls, strict=True):
            available.update(stage.outputs)
            moves, pending = self._ready(available, pending)
            self._steps.append(
                _Step(call, [self._slot(v) for v in stage.inputs], [self._slot(v) for v in stage.outputs], moves)
            )
        self._outputs = [self._slots[v] for v in outputs]

    def _slot(self, variable: Variable) -> int:
        return self._slots.setdefault(variable, len(self._slots))

    def _ready(self, available: set[Variable], pending: list[Move]) -> tuple[list[tuple[int, int, Device]], list[Move]]:
        """The moves that can be made now, in order, and those that cannot yet."""
        now, later = [], []
        for move in pending:
            if move.source in available:
                available.add(move.target)
                now.append((self._slot(move.source), self._slot(move.target), move.device))
            else:
                later.append(move)
        return now, later

    def __call__(self, values: Sequence[Value]) -> list[Value]:
        """The outputs, from the values of the sources."""
        slots = [*values, *[None] * (len(self._slots) - len(values))]
        move = self._move
        for source, target, device in self._start:
            slots[target] = move(slots[source], device)
        for step in self._steps:
            results = step.call(*[slots[i] for i in step.inputs])
            for i, result in zip(step.outputs, results, strict=True):
                slots[i] = result
            for source, target, device in step.moves:
                slots[target] = move(slots[source], device)
        if self._first:
            self._first = False
            self._seen({v: slots[i] for v, i in self._slots.items()})
        return [slots[i] for i in self._outputs]
