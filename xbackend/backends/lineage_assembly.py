"""A lowered program of the Theano lineage, and how its compiled stages become one callable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.backends.base import Built, Value
from xbackend.backends.placed import Plan, Stage, StageRunner
from xbackend.backends.placement import Executed, Execution, Transferred
from xbackend.devices import Device
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Program, generate

if TYPE_CHECKING:
    from xbackend.backends.lineage import LineageBackend

Variable = Any  # of the framework


class Cell:
    """The storage of a shared variable: its value, and the device that it is on."""

    __slots__ = ("device", "value")

    def __init__(self, value: Value, device: Device) -> None:
        self.value, self.device = value, device


@dataclass
class Graph:
    """A program lowered: its framework variables by node, and those whose values come from outside."""

    program: Program
    variables: list[Variable] = field(default_factory=list)
    arguments: list[Variable] = field(default_factory=list)
    shared: dict[int, Variable] = field(default_factory=dict)
    resident: dict[int, Variable] = field(default_factory=dict)  # large constants
    sources: dict[Variable, Device] = field(default_factory=dict)

    def device(self, node: int) -> Device:
        return Device.parse(self.program.nodes[node].device or "")


class Assembly:
    """The compiled stages of one program, put together to one callable."""

    def __init__(self, backend: LineageBackend, graph: Graph, plan: Plan) -> None:
        self.backend, self.graph, self.plan = backend, graph, plan
        program = graph.program
        self.cells = {i: backend.storage(program.shared[i]) for i in graph.shared}
        self.constants = [backend.put(np.array(generate(program.nodes[i])), graph.device(i)) for i in graph.resident]
        self.sources = [*graph.arguments, *graph.shared.values(), *graph.resident.values()]
        self.outputs = [graph.variables[i] for i in (*program.outputs, *program.updates.values())]
        self.targets = [self.cells[i] for i in program.updates]
        self.devices: dict[Variable, Device] = {}  # read from the framework after an execution
        self.bytes: dict[Variable, int] = {}

    def built(self) -> Built:
        one_device = len({*self.graph.sources.values(), *(s.device for s in self.plan.stages)}) <= 1
        if one_device and not self.plan.moves and self.backend.mode.plain:
            return Built(self._plain(), self._executed)
        return Built(self._staged(), self._executed)

    def _plain(self) -> Callable[..., Sequence[Value]]:
        """One stage on one device: the framework's innermost callable itself, unless there is state."""
        backend, graph = self.backend, self.graph
        # What is updated may be overwritten in place, as in a function of the framework with updates. With several
        # devices that would need care: a value could be part of two stages.
        alone = len(backend.devices) == 1
        mutable = {graph.shared[i] for i in graph.program.updates} if alone and backend.mode.mutates else set()
        device = next(iter(graph.sources.values()), None) or graph.device(graph.program.outputs[0])
        whole = Stage(0, device, self.sources, self.outputs)
        compiled = backend.compile_stage(graph.program.name, whole, mutable)
        self.devices.update(dict.fromkeys(self.outputs, compiled.device))
        return self._with_state(compiled.call)

    def _with_state(self, call: Callable[..., Sequence[Value]]) -> Callable[..., Sequence[Value]]:
        constants, cells, targets = self.constants, list(self.cells.values()), self.targets
        n = len(self.graph.program.outputs)
        if not cells and not constants:
            return call

        def execute(*values: Value) -> Sequence[Value]:
            results = call(*values, *[cell.value for cell in cells], *constants)
            for cell, value in zip(targets, results[n:], strict=True):
                cell.value = value
            return results[:n]

        return execute

    def _staged(self) -> Callable[..., Sequence[Value]]:
        backend, plan = self.backend, self.plan
        name = self.graph.program.name
        compiled = [backend.compile_stage(f"stage {k} of {name}", s) for k, s in enumerate(plan.stages)]
        calls = [backend.mode.on_device(c) for c in compiled]
        run = StageRunner(plan, calls, self.sources, self.outputs, move=backend.mode.move, seen=self._read_devices)
        return self._with_state(lambda *values: run(values))

    def _read_devices(self, values: Mapping[Variable, Value]) -> None:
        self.devices = {v: self.backend.mode.device_of(value) for v, value in values.items()}
        self.bytes = {v: value.nbytes for v, value in values.items()}

    def _executed(self) -> Execution:
        return Execution(self._ops(), self._transfers())

    def _transfers(self) -> tuple[Transferred, ...]:
        """Each move between stages; those that are no node of the program the framework's gradient inserted."""
        variables = self.graph.variables
        of_node = {variables[i]: i for i, n in enumerate(self.graph.program.nodes) if n.op == "transfer"}
        return tuple(
            Transferred(
                self.devices[m.source],
                self.devices[m.target],
                self.bytes[m.target],
                of_node.get(m.target),
                m.target not in of_node,
                str(m.target.owner.op),
                "devices of what was given and of what came",
            )
            for m in self.plan.moves
            if m.source in self.devices and m.target in self.devices
        )

    def _ops(self) -> Mapping[int, Executed]:
        """By node: the device of the outputs of the stage that it was compiled in, or of what a transfer returned."""
        stages = {s: k for k, s in enumerate(self.plan.stages)}
        of_stage = {s: {self.devices[v] for v in s.outputs if v in self.devices} for s in stages}
        records = {}
        for i, (node, variable) in enumerate(zip(self.graph.program.nodes, self.graph.variables, strict=True)):
            if node.op in ("input", "shared") or node.op in GENERATORS:
                continue
            if variable.owner is None:
                records[i] = Executed(None, "", "it changes nothing, so there is no op", "folded")
                continue
            name = str(variable.owner.op)
            if node.op == "transfer":
                if variable in self.devices:
                    records[i] = Executed(self.devices[variable], name, "device of what the transfer returned")
                continue
            stage = self.plan.stage_of.get(variable)
            found = of_stage.get(stage, set()) if stage is not None else set()
            if stage is not None and len(found) == 1:
                evidence = f"stage {stages[stage]} of {len(stages)}, {self.backend.mode.evidence}"
                records[i] = Executed(next(iter(found)), name, evidence)
        return records
