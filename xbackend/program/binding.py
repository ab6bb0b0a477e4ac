"""Binding: a program and the devices there are become a program in which every node has its device.

The rules, in this order:

* an op runs where the innermost `xbackend.device` scope said; outside of every scope where its inputs are, if they are
  all in one place; else on the default device;
* an argument without a scope of its own is put where it is used first, a shared variable on its own device or the
  default one;
* constants and other arrays made of nothing exist wherever they are used: they are never transferred, except those
  that a gradient is taken with respect to, which are one array in one place, as an argument is;
* a gradient lives where the array lives that it belongs to;
* a result of an `all_reduce` is where the array is that it stands for: the sum is made where the first one is, in their
  order, and transferred to the others, so that all are equal to the bit;
* where a value is used on another device than it lives on, a `transfer` op is inserted, once for each target; what
  `to_device` returns is the same value, so that it is not moved to where it came from, nor twice to a third device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from xbackend.devices import Device, DeviceMap, is_device
from xbackend.errors import SharedVariableError, UsageError
from xbackend.program.aval import Aval
from xbackend.program.ops import GENERATORS, SOURCES
from xbackend.program.program import Node, Nodes, Program, Value

MOST = 1024  # devices that are made from one CPU: beyond, a number is a slip of the keyboard


def bound(program: Program, asked: DeviceMap, pool: Sequence[Device]) -> DeviceMap:
    """What of the program's devices is ``asked`` for; where that names no logical one, those are spread over the pool.
    A logical name without a binding is an error of compiling."""
    used = {node.device for node in program.nodes}
    logical = DeviceMap.spread(program.logical_devices, pool) if all(map(is_device, asked)) else {}
    return DeviceMap({**logical, **{name: device for name, device in asked.items() if name in used}})


def spread(program: Program, asked: DeviceMap | None, virtual: int | None = None) -> tuple[DeviceMap, int]:
    """What the program's devices are `bound` to on a CPU of many devices, and how many that takes.

    Logical names are spread over ``virtual`` devices, or over as many as there are names. Raises `UsageError` for more
    devices than can be made.
    """
    pool = [Device("cpu", i) for i in range(virtual or max(len(program.logical_devices), 1))]
    bindings = bound(program, asked or DeviceMap(), pool)
    named = {n.device for n in program.nodes if n.device and is_device(n.device)}
    fixed = [Device.parse(name) for name in named if name not in bindings]
    cpus = [d.index for d in [*bindings.values(), *(asked or {}).values(), *fixed] if d.kind == "cpu"]
    count = virtual or max([0, *cpus]) + 1
    if count > MOST:
        raise UsageError(f"cpu:{count - 1} needs {count} CPU devices; xbackend makes at most {MOST}")
    return bindings, count


@dataclass(frozen=True)
class Placed:
    """A program whose nodes all name a device of the backend, with all transfers as nodes of their own.

    By the numbers of values: ``devices[i]`` is the device (``program.values[i].device`` is its text), ``origin[i]`` the
    value of the program as traced that it stands for, `None` for an inserted transfer, ``asked[i]`` what the user
    wrote. ``reducing`` are the transfers of all-reduces.
    """

    program: Program
    devices: tuple[Device, ...]
    origin: tuple[int | None, ...]
    asked: tuple[str | None, ...]
    reducing: frozenset[int] = frozenset()


_Sum = tuple[tuple[int, ...], tuple[float, ...], int, Device]


def _sum(node: Node, device: Device) -> _Sum:
    """What an all-reduce is of, and a device on which its sum may be."""
    return node.inputs, node.params["shares"], node.params["tasks"], device


@dataclass
class _Binding:
    program: Program
    bindings: DeviceMap
    available: tuple[Device, ...]
    default: Device
    where: list[Device | None] = field(default_factory=list)
    written: Nodes = field(default_factory=Nodes)
    devices: list[Device] = field(default_factory=list)
    origin: list[int | None] = field(default_factory=list)
    asked: list[str | None] = field(default_factory=list)
    copies: dict[tuple[int, Device], int] = field(default_factory=dict)
    # Of all-reduces by what they are of, on each device: how many results there are, and the sum that they share.
    results: Counter[_Sum] = field(default_factory=Counter)
    sums: dict[_Sum, int] = field(default_factory=dict)
    reducing: set[int] = field(default_factory=set)
    # What a gradient is taken with respect to has an identity: no other node may stand for it, nor it for another.
    targets: frozenset[int] = frozenset()
    used: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        nodes = self.program.nodes
        self.targets = frozenset(i for n in nodes if n.op == "grad" for i in n.inputs[1:])
        kept = (*self.program.outputs, *self.program.updates.values())
        self.used = frozenset([*kept, *(i for node in nodes for i in node.inputs)])

    def everywhere(self, original: int) -> bool:
        """Whether a node is made anew wherever it is used."""
        return self.program.values[original].op in GENERATORS and original not in self.targets

    def value_of(self, original: int) -> int:
        """The node whose value it is: a transfer changes none."""
        while self.program.values[original].op == "transfer" and original not in self.targets:
            (original,) = self.program.values[original].inputs
        return original

    def resolve(self, node: Node | Value) -> Device | None:
        if node.device is None:
            return None
        return self.bindings.resolve(node.device, self.available, node.source)

    def locate(self) -> None:
        """Fill ``where``: the device of each value of the traced program, `None` for those of generators."""
        where = self.where
        for node in self.program.nodes:
            if node.op == "grad":
                for wrt in node.inputs[1:]:
                    where[wrt] = where[wrt] or self.default  # the loss itself, used nowhere else
                    where.append(where[wrt])
                continue
            device = self.resolve(node)
            if node.op == "all_reduce":
                for i in node.inputs:
                    if where[i] is None and not self.everywhere(i):
                        where[i] = self.default
                homes = [self.home(i) for i in node.inputs]
                where += homes
                self.results.update(_sum(node, h) for i, h in zip(node.outputs, homes, strict=True) if i in self.used)
                continue
            if node.op in GENERATORS:
                device = None if self.everywhere(node.outputs[0]) else device
            elif node.op == "shared":
                device = device or self.default
            elif node.op not in SOURCES and device is None:
                places = {where[i] for i in node.inputs} - {None}
                device = places.pop() if len(places) == 1 else self.default
            where += [device] * len(node.outputs)
            for i in node.inputs:
                if where[i] is None and not self.everywhere(i):
                    where[i] = device
        for i in range(len(where)):
            if where[i] is None and not self.everywhere(i):
                where[i] = self.default

    def add(
        self,
        op: str,
        inputs: Sequence[int],
        params: Mapping[str, Any],
        results: Sequence[Aval],
        *,
        device: Device,
        source: str,
        origin: int | None = None,
        asked: str | None = None,
    ) -> int:
        """Write a node down. ``origin`` is the first value of the traced node that it stands for, ``asked`` what that
        asked for. Returns the number of its first value."""
        params = {name: _on(value, device) if isinstance(value, Program) else value for name, value in params.items()}
        outputs = self.written.add(op, inputs, params, results, device=str(device), source=source)
        self.devices += [self.devices[j] for j in inputs[1:]] if op == "grad" else [device] * len(outputs)
        self.origin += [None if origin is None else origin + k for k in range(len(outputs))]
        self.asked += [asked] * len(outputs)
        return outputs[0]

    def on(self, original: int, device: Device, source: str) -> int:
        """The number of a traced value on a device: a copy or a transfer is made where there is none."""
        value = self.value_of(original)
        position = self.copies.get((value, device))
        if position is not None:
            return position
        known = self.program.values[value]
        if self.everywhere(value):
            op, params, source = known.op, known.params, known.source
            position = self.add(
                op, (), params, (known.aval,), device=device, source=source, origin=value, asked=known.device
            )
        else:
            home = self.where[original]
            assert home is not None  # only what is everywhere has none
            inputs = (self.copies[value, home],)
            position = self.add("transfer", inputs, {}, (known.aval,), device=device, source=source)
        self.copies[value, device] = position
        return position

    def place(self) -> None:
        for node in self.program.nodes:
            op, params, first = node.op, node.params, node.outputs[0]
            home = self.where[first]
            if op == "all_reduce":
                self.place_all_reduce(node)
                continue
            if home is None:  # made where it is used
                continue
            value = self.value_of(first)
            if op == "grad":
                # No data flows along these edges: the framework derives the backward ops and their transfers.
                loss, *wrt = node.inputs
                inputs = [self.copies[self.value_of(loss), self.home(loss)]]
                inputs += [self.copies[i, self.home(i)] for i in wrt]
            elif op == "transfer":
                (source,) = node.inputs
                if value != first and self.everywhere(value):
                    self.on(value, home, node.source)
                if (value, home) in self.copies:
                    continue  # it is there already
                inputs = [self.on(source, self.home(source), node.source)]
                if self.devices[inputs[0]] == home:
                    # It goes nowhere, but is an array of its own, as a reshape to its own shape is.
                    op, params = "reshape", {"shape": node.results[0].shape}
            else:
                inputs = [self.on(j, home, node.source) for j in node.inputs]
            position = self.add(
                op, inputs, params, node.results, device=home, source=node.source, origin=first, asked=node.device
            )
            for k in range(len(node.outputs)):
                self.copies[value + k, self.where[first + k] or home] = position + k

    def place_all_reduce(self, node: Node) -> None:
        """The results that are used. Each is where its array is, whatever scope the call stands in."""
        for i in node.outputs:
            home = self.where[i]
            if home is not None and i in self.used:
                before = len(self.written.values)
                self.copies[i, home] = self.reduced(i, node, home)
                made = enumerate(self.written.values[before:], before)
                self.reducing.update(n for n, value in made if value.op == "transfer")

    def reduced(self, number: int, node: Node, home: Device) -> int:
        """The number of an all-reduce's result."""
        root, shares, tasks = self.home(node.inputs[0]), node.params["shares"], node.params["tasks"]
        aval = node.results[0]

        def made(op: str, inputs: Sequence[int], device: Device, of: Aval = aval, **params: Any) -> int:
            origin = number if op != "transfer" else None
            return self.add(op, inputs, params, (of,), device=device, source=node.source, origin=origin)

        here, there = _sum(node, root), _sum(node, home)
        if here not in self.sums:
            terms = [self.on(i, root, node.source) for i in node.inputs]
            if shares:
                one = aval._replace(shape=())
                factors = [made("constant", (), root, one, value=np.asarray(s, aval.dtype.value)) for s in shares]
                terms = [made("multiply", pair, root) for pair in zip(terms, factors, strict=True)]
            total = reduce(lambda x, y: made("add", (x, y), root), terms)
            if tasks > 1:  # the rest of it is between processes
                total = made("all_reduce", (total,), root, shares=(), tasks=tasks)
            self.sums[here] = total
        if there not in self.sums:
            self.sums[there] = made("transfer", (self.sums[here],), home)
        if home != root and self.results[there] == 1:
            return self.sums[there]
        # One sum may be several results, and each has an identity of its own.
        return made("reshape", (self.sums[there],), home, shape=aval.shape)

    def home(self, original: int) -> Device:
        return self.where[original] or self.resolve(self.program.values[original]) or self.default

    def result(self, original: int, device: Device | None = None) -> int:
        return self.on(original, device or self.home(original), self.program.values[original].source)


def _on(body: Program, device: Device) -> Program:
    """The body of a loop or a choice, whose nodes run where the loop does."""
    inner = [{name: _on(deeper, device) for name, deeper in node.bodies.items()} for node in body.nodes]
    nodes = [
        replace(node, device=str(device), params={**node.params, **own} if own else node.params)
        for node, own in zip(body.nodes, inner, strict=True)
    ]
    return replace(body, nodes=tuple(nodes))


def bind(program: Program, bindings: DeviceMap, available: Sequence[Device], default: Device) -> Placed:
    """Give every node of the program a device, and every crossing a `transfer`.

    Raises `UnboundDevice` for a logical name without a binding, `DeviceUnavailable` for a device that is not there,
    both with the user's line, and `SharedVariableError` for a shared variable on two devices.
    """
    binding = _Binding(program, bindings, tuple(available), default)
    binding.locate()
    binding.place()
    shared, homes = {}, dict[str, Device]()
    for i, variable in program.shared.items():
        device = binding.home(i)
        if homes.setdefault(variable.uid, device) != device:
            raise SharedVariableError(f"{variable!r} is asked for on {homes[variable.uid]} and on {device}")
        shared[binding.copies[i, device]] = variable
    outputs = tuple(binding.result(i) for i in program.outputs)
    updates = {
        binding.copies[t, binding.home(t)]: binding.result(e, binding.home(t)) for t, e in program.updates.items()
    }
    inputs = tuple(binding.copies[i, binding.home(i)] for i in program.inputs)
    placed = Program(program.name, tuple(binding.written.nodes), inputs, outputs, program.structure, shared, updates)
    return Placed(
        placed, tuple(binding.devices), tuple(binding.origin), tuple(binding.asked), frozenset(binding.reducing)
    )
