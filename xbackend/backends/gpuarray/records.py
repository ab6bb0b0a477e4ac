"""Devices and transfers of a Theano function over contexts, read from its optimised graph. Our traces of variables name
nodes of the program. Most optimisations copy traces to replacements (`theano.gof.opt.copy_stack_trace`); for the others
a feature of the graph follows each replacement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from xbackend.backends.gpuarray.contexts import HOST
from xbackend.backends.lineage.ops import behind
from xbackend.backends.placement import LOOKED_THROUGH, Backward, Executed, Execution, Transferred
from xbackend.backends.staged.assembly import FrameworkGraph
from xbackend.devices import Device
from xbackend.program.ops import GENERATORS
from xbackend.program.stages import Variable

# Entries of a trace: the op computes the node of a mark, given by its number, or contains it, fused.
_COMPUTES, _CONTAINS = "mark of the program", "fused mark of the program"
_KINDS = (_COMPUTES, _CONTAINS)
_EVIDENCE = "context of the op in the optimised graph"
_TRANSFERS = ("GpuFromHost", "HostFromGpu", "GpuToGpu")
_COPIES = (*_TRANSFERS, "DeepCopyOp", "GpuContiguous")
_BARRIERS = ("FoldedTransfer", "GpuToGpu")  # no fusion crosses these
_SHAPES = ("Shape", "Shape_i", "MakeVector")  # ops that read lengths only


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark on an op of the lowered graph: ``node``, its node of the program; ``where``, the device that it should run
    on (of a backward op its forward op's, `None` if it depends only on constants); ``last``, whether its result is the
    node's; ``lengths``, the shape noted for its result."""

    node: int
    where: Device | None
    last: bool
    lengths: tuple[int, ...] | None


def mark(graph: FrameworkGraph, where: Mapping[Variable, Device]) -> Sequence[Mark]:
    """The marks of a lowered graph. Their numbers are written into the traces."""
    marks: list[Mark] = []
    for i, v in graph.own():
        lengths = getattr(v.tag, "lengths", None)
        v.tag.trace = [[(_COMPUTES, len(marks), graph.program.values[i].op, "")]]  # Theano prints four items
        marks.append(Mark(i, where.get(v), v is graph.variables[i], lengths))
    return marks


def _entries(variable: Variable) -> Iterator[tuple[str, int]]:
    for trace in getattr(variable.tag, "trace", []):
        yield from (entry[:2] for entry in trace if entry[0] in (_COMPUTES, _CONTAINS))


def follower(feature: type) -> type:
    """A feature of a graph (`theano.gof.toolbox.Feature`) that makes traces follow replacements."""

    class Follower(feature):  # type: ignore[misc]
        def __init__(self) -> None:
            self._new: set[Any] = set()

        def on_import(self, graph: Any, node: Any, reason: Any) -> None:
            self._new.add(node)

        def on_change_input(self, graph: Any, node: Any, i: int, *changed: Any, reason: Any) -> None:
            old, new = changed
            if new.owner in self._new:
                _hand_on(old, new, self._new)
            elif new.owner is not None and reason == "MergeOptimizer":
                # Two equal computations were merged: the remaining one is both.
                _contain(new, {number for _, number in _entries(old)})
            self._new.clear()

    return Follower


def _hand_on(old: Variable, new: Variable, imported: set[Any]) -> None:
    """Copy the entries of the replaced ops to the ops that replace ``old``."""
    trace = list(getattr(old.tag, "trace", []))
    frontier: set[Variable] = set()
    todo = [new]
    while todo:
        v = todo.pop()
        if v.owner is None or v.owner not in imported:
            frontier.add(v)
            continue
        has = list(getattr(v.tag, "trace", []))
        if v is new or not any(True for _ in _entries(v)):
            v.tag.trace = [*(t for t in trace if t not in has), *has]
        todo += v.owner.inputs
    inside: set[int] = set()
    seen, todo = {old}, list(old.owner.inputs) if old.owner is not None else []
    while todo:
        v = todo.pop()
        if v in seen or v in frontier or v.owner is None:
            continue
        seen.add(v)
        if type(v.owner.op).__name__ in _BARRIERS:
            continue
        inside |= {number for _, number in _entries(v)}
        todo += v.owner.inputs
    _contain(new, inside)


def _contain(variable: Variable, inside: set[int]) -> None:
    """Add to a variable's trace that its op contains these marks, by number."""
    if inside:
        trace = getattr(variable.tag, "trace", [])
        variable.tag.trace = [*trace, [(_CONTAINS, number, "", "") for number in sorted(inside)]]


def _device(variable: Variable) -> Device:
    context = getattr(variable.type, "context_name", "cpu")
    return HOST if context == "cpu" else Device.parse(context)


def _kind(node: Any) -> str:
    return type(node.op).__name__


def _seen(node: Any, status: str = "") -> Executed:
    return Executed(_device(node.outputs[0]), str(node.op), _EVIDENCE, status)


class Reader:
    def __init__(self, graph: FrameworkGraph, marks: Sequence[Mark], optimised: Any) -> None:
        self.program, self._graph, self._marks = graph.program, graph, marks
        self._moves = {i for i, node in enumerate(self.program.values) if node.op == "transfer"}
        lengths: set[Any] = set()  # ops on the host that compute lengths only
        self._nodes = []
        for node in optimised.toposort():
            owners = [v.owner for v in node.inputs if v.owner is not None]
            constant = all(v.owner is not None or hasattr(v, "data") for v in node.inputs)
            on_host = _device(node.outputs[0]) == HOST
            if _kind(node) in _SHAPES or (on_host and constant and all(o in lengths for o in owners)):
                lengths.add(node)
            else:
                self._nodes.append(node)

    def execution(self) -> Execution:
        return Execution(self._ops(), self._transfers(), tuple(self._backward()))

    def _of(self, variables: Sequence[Variable], kind: str = _COMPUTES) -> list[Mark]:
        return [self._marks[n] for v in variables for k, n in _entries(v) if k == kind]

    def _computing(self, kind: str) -> Mapping[int, list[tuple[Mark, Any]]]:
        """By node of the program: its marks, each with the optimised op that computes or contains it."""
        by_node: dict[int, list[tuple[Mark, Any]]] = defaultdict(list)
        for node in self._nodes:
            if _kind(node) not in _COPIES:
                for m in self._of(node.outputs, kind):
                    by_node[m.node].append((m, node))
        return by_node

    def _ops(self) -> Mapping[int, Executed]:
        computing, containing = self._computing(_COMPUTES), self._computing(_CONTAINS)
        transfers = [n for n in self._nodes if _kind(n) in _TRANSFERS]
        moved = {m.node: n for n in transfers for m in self._of(n.outputs) if m.node in self._moves}
        records: dict[int, Executed | None] = {}
        for i, node in enumerate(self.program.values):
            if node.op in ("input", "shared"):
                continue
            if i in self._moves:
                if i in moved:
                    records[i] = _seen(moved[i])
            elif i in computing:
                records[i] = self._executed(i, computing[i])
            elif i in containing:
                records[i] = self._fused(i, containing[i])
            elif node.op not in GENERATORS and all(m.node != i for m in self._of([self._graph.variables[i]])):
                records[i] = Executed(None, "", "it changes nothing, so there is no op", "folded")
            elif behind(self._graph.variables[i]) in self._graph.variables[:i]:
                records[i] = Executed(None, "", LOOKED_THROUGH, "folded")
        return {i: record for i, record in records.items() if record is not None}

    def _executed(self, i: int, ops: Sequence[tuple[Mark, Any]]) -> Executed | None:
        """The record of one of the node's ops: of one on a wrong device, else of the op of the result, else of one on
        the node's device (as in a backward pass), else of the transfer of a gradient computed elsewhere."""
        here = self._graph.device(i)
        shown = (
            [op for m, op in ops if _device(op.outputs[0]) != (m.where or here)]
            or [op for m, op in ops if m.last]
            or [op for _, op in ops if _device(op.outputs[0]) == here]
            or self._came(i)
        )
        return _seen(shown[-1]) if shown else None

    def _came(self, i: int) -> list[Any]:
        """The transfers that bring the node's value to its device."""
        here = self._graph.device(i)
        transfers = (n for n in self._nodes if _kind(n) in _TRANSFERS and _device(n.outputs[0]) == here)
        return [n for n in transfers if any(m.node == i for k in _KINDS for m in self._of(n.outputs, k))]

    def _fused(self, i: int, ops: Sequence[tuple[Mark, Any]]) -> Executed:
        # A graph that was simplified away may also have contained it; the op on the right device counts.
        here = [op for _, op in ops if _device(op.outputs[0]) == self._graph.device(i)]
        if not here and self.program.values[i].op in GENERATORS:  # Theano merged it with an equal one elsewhere
            here = self._came(i)
        return _seen((here or [op for _, op in ops])[-1], "fused")

    def _backward(self) -> Iterator[Backward]:
        """The optimised ops that compute or contain marks of gradients; contained ones count on the right device
        only."""
        for node in self._nodes:
            if _kind(node) in _COPIES:
                continue
            device = _device(node.outputs[0])
            said = dict.fromkeys((m.node, m.where, "") for m in self._of(node.outputs))
            inside = (m for m in self._of(node.outputs, _CONTAINS) if m.where == device)
            said.update(dict.fromkeys((m.node, m.where, "fused") for m in inside if (m.node, m.where, "") not in said))
            for i, where, status in said:
                if self.program.values[i].op == "grad":
                    yield Backward(i, None, where, device, str(node.op), _EVIDENCE, status)

    def _transfers(self) -> tuple[Transferred, ...]:
        records = []
        for node in self._nodes:
            if _kind(node) not in _TRANSFERS:
                continue
            source, target = node.inputs[0], node.outputs[0]
            of = {m.node for m in self._of([target])}
            own = max(of & self._moves, default=None)
            gradient = own is None and any(self.program.values[i].op == "grad" for i in of)
            size = self._bytes(target, source)
            records.append(Transferred(_device(source), _device(target), size, own, gradient, str(node.op), _EVIDENCE))
        return tuple(records)

    def _bytes(self, *same: Variable) -> int:
        """The bytes of a value, by the shapes in the marks of its copies, the variables ``same``."""
        kind = same[0].type
        item = int(np.dtype(kind.dtype).itemsize)
        for m in self._of(same):
            for lengths in (m.lengths, self.program.values[m.node].shape):
                if lengths is not None and tuple(n == 1 for n in lengths) == tuple(kind.broadcastable):
                    return item * prod(lengths)
        return item
