"""A framework's graph over several devices.

Theano ran a graph over several devices; Aesara and PyTensor lost that with its GPU back end. An identity op that
names a source and a target device gives it back: devices follow the data from there, also through the gradient, whose
transfers run the other way; cutting the graph at the transfers gives stages, each of which is compiled for its device.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from xbackend.devices import Device
from xbackend.errors import PlacementError
from xbackend.program import stages
from xbackend.program.stages import Plan, Variable


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
    """The graph that computes the outputs, cut at its transfers.

    ``sources`` are the variables that get their values from outside, and the devices these are on. ``outputs`` come
    with the device that they are wanted on. Raises `PlacementError` where an op has inputs on two devices.
    """
    order, devices = toposort([v for v, _ in outputs]), {**dict(outputs), **sources}
    moves = {k: node for k, node in enumerate(order) if isinstance(node.op, transfer)}
    for node in moves.values():
        devices |= {node.inputs[0]: node.op.source, node.outputs[0]: node.op.target}
    return stages.cut(order, sources, [v for v, _ in outputs], devices=devices, transfers=moves)
