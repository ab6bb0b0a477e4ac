"""Binding gives every node of a program one of the available devices.

The rules, in this order:

* an op runs on the device of the innermost `xbackend.device` scope; outside of all scopes on the device of its inputs,
  if all are on one; else on the default device;
* an argument without a scope is placed where it is first used, a shared variable on its own device or the default one;
* constants and other generators are made on each device that uses them and never transferred, except where a gradient
  is taken with respect to one: it is then one array on one device, as an argument is;
* a gradient is on the device of its array;
* a result of an `all_reduce` is on the device of its array: the sum is made on the device of the first one, in their
  order, and transferred to the others, so all are equal to the bit;
* where a value is used on another device, a `transfer` op is inserted, once for each target. `to_device` returns the
  same value: it is never moved back to where it came from, nor twice to a third device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from xbackend.devices import Device, DeviceMap, is_device
from xbackend.errors import SharedVariableError, UsageError
from xbackend.program.aval import Aval
from xbackend.program.ops import GENERATORS, SOURCES
from xbackend.program.program import Node, Nodes, Program, Value

MOST = 1024  # virtual devices of one CPU; a larger number is a typing error


def bound(program: Program, asked: DeviceMap, pool: Sequence[Device]) -> DeviceMap:
    """The bindings of ``asked`` that the program uses. If ``asked`` binds no logical name, all of them are spread over
    the pool. A logical name that stays unbound is an error when the program is compiled."""
    used = {node.device for node in program.nodes}
    logical = DeviceMap.spread(program.logical_devices, pool) if all(map(is_device, asked)) else {}
    return DeviceMap({**logical, **{name: device for name, device in asked.items() if name in used}})


def spread(program: Program, asked: DeviceMap | None, virtual: int | None = None) -> tuple[DeviceMap, int]:
    """The bindings (`bound`) of the program to virtual devices of a CPU, and the number of devices they need.

    Logical names are spread over ``virtual`` devices, or over as many as there are names. Raises `UsageError` for more
    than `MOST` devices.
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
    """A program in which every node names a device of the backend and every transfer is a node.

    Of value ``i``, ``devices[i]`` is the device (``program.values[i].device`` is its text), ``origin[i]`` its value in
    the traced program (`None` for an inserted transfer), ``asked[i]`` the device that the user wrote. ``reducing`` are
    the transfers of all-reduces.
    """

    program: Program
    devices: tuple[Device, ...]
    origin: tuple[int | None, ...]
    asked: tuple[str | None, ...]
    reducing: frozenset[int] = frozenset()


_Sum = tuple[tuple[int, ...], tuple[float, ...], int, Device]


def _sum(node: Node, device: Device) -> _Sum:
    """The key of an all-reduce's sum on a device: its inputs, shares, tasks and the device."""
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
    moved: dict[tuple[int, Device], int] = field(default_factory=dict)  # transfers by a written value and its target
    # All-reduces by `_sum`: the number of results on the device, and the sum that they share.
    results: Counter[_Sum] = field(default_factory=Counter)
    sums: dict[_Sum, int] = field(default_factory=dict)
    reducing: set[int] = field(default_factory=set)
    # A target of a gradient has an identity: no other node may stand for it, nor it for another.
    targets: frozenset[int] = frozenset()
    used: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        nodes = self.program.nodes
        self.targets = frozenset(i for n in nodes if n.op == "grad" for i in n.inputs[1:])
        kept = (*self.program.outputs, *self.program.updates.values())
        self.used = frozenset([*kept, *(i for node in nodes for i in node.inputs)])

    def everywhere(self, original: int) -> bool:
        """Whether a value is made anew on each device that uses it."""
        return self.program.values[original].op in GENERATORS and original not in self.targets

    def value_of(self, original: int) -> int:
        """The value before its transfers, which do not change it."""
        while self.program.values[original].op == "transfer" and original not in self.targets:
            (original,) = self.program.values[original].inputs
        return original

    def resolve(self, node: Node | Value) -> Device | None:
        if node.device is None:
            return None
        return self.bindings.resolve(node.device, self.available, node.source)

    def locate(self) -> None:
        """Fill ``where``: the device of each value of the traced program, `None` for values made everywhere."""
        where = self.where
        for node in self.program.nodes:
            if node.op == "grad":
                for wrt in node.inputs[1:]:
                    where[wrt] = where[wrt] or self.default  # the loss itself, used nowhere else
                    where.append(where[wrt])
                continue
            device = self.resolve(node)
            if node.op == "all_reduce":
                self.settle(node.inputs, self.default)
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
            self.settle(node.inputs, device)
        self.settle(range(len(where)), self.default)

    def settle(self, values: Iterable[int], device: Device | None) -> None:
        """Give this device to the values without one that are not made everywhere."""
        for i in values:
            if self.where[i] is None and not self.everywhere(i):
                self.where[i] = device

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
        """Add a node. ``origin`` is the first value of its traced node, ``asked`` the device that the traced node asks
        for. Returns the number of its first value."""
        params = on_device(params, str(device))
        outputs = self.written.add(op, inputs, params, results, device=str(device), source=source)
        self.devices += [self.devices[j] for j in inputs[1:]] if op == "grad" else [device] * len(outputs)
        self.origin += [None if origin is None else origin + k for k in range(len(outputs))]
        self.asked += [asked] * len(outputs)
        return outputs[0]

    def on(self, original: int, device: Device, source: str) -> int:
        """The number of a traced value on a device. A copy or a transfer is added if it is not there."""
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
            assert home is not None  # only values made everywhere have none
            position = self.sent(self.copies[value, home], device, source, known.aval, kept=value in self.targets)
        self.copies[value, device] = position
        return position

    def sent(self, position: int, device: Device, source: str, aval: Aval, kept: bool) -> int:
        """The number of a written value's copy on another device. A result of an all-reduce is a transfer of its sum:
        the sum is transferred in its place, unless the result is ``kept``."""
        if position in self.reducing and not kept:
            (position,) = self.written.values[position].inputs
        if self.devices[position] == device:
            return position
        there = self.moved.get((position, device))
        if there is None:
            there = self.add("transfer", (position,), {}, (aval,), device=device, source=source)
            self.moved[position, device] = there
        return there

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
                    # It stays on its device, but is a separate array, as a reshape to its own shape is.
                    op, params = "reshape", {"shape": node.results[0].shape}
            else:
                inputs = [self.on(j, home, node.source) for j in node.inputs]
            position = self.add(
                op, inputs, params, node.results, device=home, source=node.source, origin=first, asked=node.device
            )
            for k in range(len(node.outputs)):
                self.copies[value + k, self.where[first + k] or home] = position + k

    def place_all_reduce(self, node: Node) -> None:
        """Add the results that are used, each on the device of its array, whatever the scope of the call is."""
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
            if tasks > 1:  # the sum goes on over processes
                total = made("all_reduce", (total,), root, shares=(), tasks=tasks)
            self.sums[here] = total
        if there not in self.sums:
            self.sums[there] = made("transfer", (self.sums[here],), home)
            if number not in self.targets:
                self.moved[self.sums[here], home] = self.sums[there]
        if home != root and self.results[there] == 1:
            return self.sums[there]
        # Several results may share one sum, and each has its own identity.
        return made("reshape", (self.sums[there],), home, shape=aval.shape)

    def home(self, original: int) -> Device:
        return self.where[original] or self.resolve(self.program.values[original]) or self.default

    def result(self, original: int, device: Device | None = None) -> int:
        return self.on(original, device or self.home(original), self.program.values[original].source)


def on_device(params: Mapping[str, Any], device: str | None) -> dict[str, Any]:
    """The parameters of a node, with all nodes in the bodies of a loop or a choice on this device."""

    def moved(body: Program) -> Program:
        nodes = [replace(node, device=device, params=on_device(node.params, device)) for node in body.nodes]
        return replace(body, nodes=tuple(nodes))

    return {name: moved(value) if isinstance(value, Program) else value for name, value in params.items()}


def renamed(program: Program, bindings: DeviceMap) -> Program:
    """The traced program with each bound name replaced by its device. Other names stay."""

    def params(node: Node) -> dict[str, Any]:
        return {k: renamed(v, bindings) if isinstance(v, Program) else v for k, v in node.params.items()}

    bound = {name: str(device) for name, device in bindings.items()}
    nodes = [replace(n, device=bound.get(n.device or "", n.device), params=params(n)) for n in program.nodes]
    return replace(program, nodes=tuple(nodes))


def bind(program: Program, bindings: DeviceMap, available: Sequence[Device], default: Device) -> Placed:
    """Give every node of the program a device, and every edge between devices a `transfer`.

    Raises `UnboundDevice` for a logical name without a binding, `DeviceUnavailable` for a missing device, both with the
    user's line, and `SharedVariableError` for a shared variable on two devices.
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
    placed = binding.written.program(program.name, inputs, outputs, program.structure, shared, updates)
    return Placed(
        placed, tuple(binding.devices), tuple(binding.origin), tuple(binding.asked), frozenset(binding.reducing)
    )
