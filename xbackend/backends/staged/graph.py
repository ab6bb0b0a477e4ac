"""A framework's graph over several devices: its transfers are an identity op with a source and a target device, as
Theano had, reversed in the gradient. The graph is cut there into stages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from xbackend.devices import Device
from xbackend.errors import PlacementError
from xbackend.program import stages
from xbackend.program.stages import Plan, Variable


def transfer_op(op_class: type, apply_class: type) -> type:
    """The op for transfers, ``Transfer(source, target)(x)``, of the framework's `Op` and `Apply`. It is never
    compiled."""

    class Transfer(op_class):  # type: ignore[misc]
        __props__ = ("source", "target")

        def __init__(self, source: Device, target: Device) -> None:
            self.source, self.target = source, target

        def make_node(self, x: Variable) -> Any:
            return apply_class(self, [x], [x.type()])

        def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
            raise PlacementError(f"{self} was compiled into a stage instead of being a cut between two")

        def infer_shape(self, *arguments: Any) -> Any:
            return arguments[-1]  # the shapes of the inputs; later generations pass the graph before them

        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
            return [type(self)(self.target, self.source)(cotangents[0])]

        L_op = pullback  # its name before PyTensor 3

    return Transfer


def toposort(outputs: Iterable[Variable], given: Collection[Variable] = ()) -> list[Any]:
    """The apply nodes that the outputs need, except predecessors of ``given``, in topological order; it never
    recurses."""
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
    """Cut the graph of the outputs at its transfers. ``sources`` are the variables with values from outside;
    ``outputs`` have the devices asked for. Raises `PlacementError` where an op has inputs on two devices."""
    order, devices = toposort([v for v, _ in outputs]), {**dict(outputs), **sources}
    moves = {k: node for k, node in enumerate(order) if isinstance(node.op, transfer)}
    for node in moves.values():
        devices |= {node.inputs[0]: node.op.source, node.outputs[0]: node.op.target}
    return stages.cut(order, sources, [v for v, _ in outputs], devices=devices, transfers=moves)
