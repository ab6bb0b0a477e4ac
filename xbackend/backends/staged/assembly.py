"""A program lowered to a graph in stages, and the assembly of its compiled stages to one callable."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xbackend.backends import placement
from xbackend.backends.contract import Built, Value
from xbackend.backends.lowered import EVIDENCE as LOWERED
from xbackend.backends.lowered import LoweredOnly, LoweringReport, refuse
from xbackend.backends.placement import Backward, Executed, Execution, ProfiledCall, Span, Transferred
from xbackend.backends.staged.backend import StagedBackend
from xbackend.backends.staged.device_threads import DeviceThreads
from xbackend.backends.staged.graph import cut
from xbackend.backends.staged.schedule import Instruction, StageSchedule, State, straight_line
from xbackend.devices import Device
from xbackend.errors import PlacementError
from xbackend.program import analyses
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Program, generate
from xbackend.program.stages import Plan, Stage, Variable

LARGE = 64  # constants with more elements are inputs that stay on their device, where no compiler folds them


@dataclass
class FrameworkGraph:
    """A lowered program: the framework's variables, by the program's values, and the variables of its sources."""

    program: Program
    variables: list[Variable] = field(default_factory=list)
    arguments: list[Variable] = field(default_factory=list)
    shared: dict[int, Variable] = field(default_factory=dict)
    resident: dict[int, Variable] = field(default_factory=dict)  # large constants
    sources: dict[Variable, Device] = field(default_factory=dict)

    def device(self, node: int) -> Device:
        return Device.parse(self.program.values[node].device or "")

    def results(self) -> list[tuple[Variable, Device]]:
        """The outputs, then the new values of updates, each with its device."""
        nodes = (*self.program.outputs, *self.program.updates.values())
        return [(self.variables[i], self.device(i)) for i in nodes]

    def own(self) -> Iterator[tuple[int, Variable]]:
        """The computed variables, each with the first value that needs it, before its predecessors."""
        seen: set[Variable] = set()
        for i, variable in enumerate(self.variables):
            todo = [variable]
            while todo:
                v = todo.pop()
                if v.owner is not None and v not in seen:
                    seen.add(v)
                    todo += v.owner.inputs
                    yield i, v


class Assembly:
    """The assembly of the compiled stages of a program, whose graph is cut at its transfers."""

    def __init__(self, backend: StagedBackend, graph: FrameworkGraph, transfer: type, separate: str = "") -> None:
        """``separate`` is as in `Execution`."""
        self.separate, self.lowered_only = separate, LOWERED if backend.settings.lower_for else ""
        self.backend, self.graph, self.plan = backend, graph, cut(graph.sources, graph.results(), transfer)
        program = graph.program
        self.cells = {i: backend.storage(program.shared[i]) for i in graph.shared}
        self.constants = [backend.put(np.array(generate(program.values[i])), graph.device(i)) for i in graph.resident]
        self.sources = [*graph.arguments, *graph.shared.values(), *graph.resident.values()]
        self.outputs = [variable for variable, _ in graph.results()]
        targets = [self.cells[i] for i in program.updates]
        self.state = State(list(self.cells.values()), self.constants, targets, backend.confirm)
        self.devices: dict[Variable, Device] = {}  # read from the framework after an execution
        self.bytes: dict[Variable, int] = {}
        self._numbers = {stage: k for k, stage in enumerate(self.plan.stages)}

    def built(self) -> Built:
        backend, name, stages = self.backend, self.graph.program.name, self.plan.stages
        one_device = len({*self.graph.sources.values(), *(s.device for s in stages)}) <= 1
        if one_device and not self.plan.between and backend.plain:
            device = next(iter(self.graph.sources.values()), None) or self.graph.results()[0][1]
            outputs = self.distinct() if self._alone else self.outputs
            only = Stage(0, device, self.sources, outputs)
            self.names, self.compiled = [name], [backend.compile_stage(name, only, self._mutable())]
            execute, device = self.compiled[0]
            if not backend.unread:
                self.devices.update(dict.fromkeys((*self.outputs, *outputs), device))
            self.schedule = StageSchedule(Plan((only,), (), (only,), {}), self.sources, outputs)
            # The framework's innermost callable itself, unless there is state.
            if self.cells or self.constants:
                execute = straight_line(self.schedule, [execute], {}, self.state, name)
        else:
            self.names = [f"stage {k} of {name}" for k in range(len(stages))]
            self.compiled = backend.compile_stages(self.names, stages)
            self.schedule = StageSchedule(self.plan, self.sources, self.outputs)
            execute = self._staged()
        if self.lowered_only:
            return Built(refuse, lambda: Execution({}), refuse, self.lowered)
        return Built(execute, self._executed, self._profile)

    def lowered(self) -> LoweringReport:
        """The stages lowered for devices that are not there, and the records of the nodes in them."""
        for stage, compiled in zip(self.plan.stages, self.compiled, strict=False):
            self.devices |= dict.fromkeys(stage.outputs, compiled.device)
        for move in self.plan.between:
            (source,), (target,) = move.inputs, move.outputs
            self.devices = {source: move.op.source, **self.devices, target: move.op.target}
            kind = getattr(target, "type", target)
            self.bytes[target] = math.prod(kind.shape) * np.dtype(kind.dtype).itemsize
        named = zip(self.names, self.compiled, strict=True)
        parts = [replace(each.call.part, name=name) for name, each in named if isinstance(each.call, LoweredOnly)]
        return LoweringReport(tuple(parts), self._executed())

    @property
    def _alone(self) -> bool:
        """Whether updated variables may be overwritten in place: with several devices a value could be in two
        stages."""
        return len(self.backend.devices) == 1 and self.backend.mutates

    def _mutable(self) -> set[Variable]:
        """The inputs that may be overwritten; none if the call may fail, as state must then stay."""
        program = self.graph.program
        if not self._alone or (self.backend.refuses and analyses.may_refuse(program)):
            return set()
        return {self.graph.shared[i] for i in program.updates}

    def distinct(self) -> list[Variable]:
        """The results; one that is also another result or a shared variable is copied, as updates overwrite it."""
        held, distinct = {*self.graph.shared.values()}, list[Variable]()
        for variable in self.outputs:
            distinct.append(self.backend.copied(variable) if variable in held else variable)
            held.add(variable)
        return distinct

    def _staged(self) -> Callable[..., Sequence[Value]]:
        """All stages as straight-line code. The first run reads the device of each value."""
        backend, fresh = self.backend, True
        stages = zip(self.compiled, self.plan.stages, strict=True)
        self.calls = [backend.on_device(compiled, len(stage.outputs)) for compiled, stage in stages]
        self.moves = {d: backend.mover(d) for d in dict.fromkeys(m.op.target for m in self.plan.between)}
        run = straight_line(self.schedule, self.calls, self.moves, self.state, self.graph.program.name)

        def execute(*values: Value) -> Sequence[Value]:
            nonlocal fresh
            if fresh:
                results = self._watched(values)
                fresh = False
                return results
            return run(*values)

        return execute

    def _watched(self, values: Sequence[Value]) -> Sequence[Value]:
        """The results of one run that reads the device of every value. Raises `PlacementError` if a stage fails and it
        or an input is on a wrong device."""
        backend, state, schedule = self.backend, self.state, self.schedule
        slots = dict(enumerate(self._given(values)))
        for step in schedule.steps:
            inputs = [slots[i] for i in step.inputs]
            if step.stage is None:
                results: Sequence[Value] = [self.moves[step.device](*inputs)]
            else:
                try:
                    results = self.calls[step.stage](*inputs)
                except Exception as error:
                    there, device = {backend.device_of(value) for value in inputs}, self.compiled[step.stage].device
                    if not there - {step.device} and device == step.device:
                        raise
                    raise PlacementError(
                        f"stage {step.stage} of {self.graph.program.name} is to run on {step.device} on backend "
                        f"{self.backend.name}, was compiled for {device} and given values on "
                        f"{', '.join(sorted(map(str, there)))}: {error}"
                    ) from error
            slots.update(zip(step.outputs, results, strict=True))
        self.devices = {v: backend.device_of(slots[i]) for v, i in schedule.slots.items()}
        self.bytes = {v: backend.content(slots[i]).nbytes for v, i in schedule.slots.items()}
        outputs = [slots[i] for i in schedule.outputs]
        first = len(outputs) - len(state.targets)
        for cell, value in zip(state.targets, outputs[first:], strict=True):
            cell.value = value
        return outputs[:first]

    def _executed(self) -> Execution:
        return Execution(self.ops(), self._transfers(), tuple(self.backward()), self.separate)

    def _transfers(self) -> tuple[Transferred, ...]:
        """The transfers between stages. Transfers without a node of the program are of the framework's gradient."""
        variables = self.graph.variables
        of_node = {variables[i]: i for i, n in enumerate(self.graph.program.values) if n.op == "transfer"}
        ends = [(move.inputs[0], move.outputs[0], move.op) for move in self.plan.between]
        known = self.devices
        said = self.lowered_only or "devices of what was given and of what came"
        return tuple(
            Transferred(known[x], known[y], self.bytes[y], of_node.get(y), y not in of_node, str(op), said)
            for x, y, op in ends
            if x in known and y in known
        )

    def ops(self) -> Mapping[int, Executed]:
        """By node: the device of the outputs of its stage, or of the result of a transfer."""
        constant, records = analyses.constant(self.graph.program), {}
        first = {variable: i for i, variable in reversed(list(enumerate(self.graph.variables)))}
        moved = {move.outputs[0] for move in self.plan.between}
        for i, (node, variable) in enumerate(zip(self.graph.program.values, self.graph.variables, strict=True)):
            if node.op in ("input", "shared") or node.op in GENERATORS:
                continue
            if variable.owner is None:
                records[i] = Executed(None, "", "it changes nothing, so there is no op", "folded")
                continue
            name = str(variable.owner.op)
            if node.op == "transfer" or variable in moved:  # such as a gradient moved to its target's device
                if variable in self.devices:
                    records[i] = Executed(self.devices[variable], name, "device of what the transfer returned")
                continue
            stage = self.plan.stage_of.get(variable)
            computed = self.backend.behind(variable)
            if stage is None and i not in constant and computed is not variable:
                if computed.owner is None or first.get(computed, i) < i:
                    records[i] = Executed(None, "", placement.LOOKED_THROUGH, "folded")
                    continue
                stage, name = self.plan.stage_of.get(computed), str(computed.owner.op)
            if stage is not None and (ran := self._ran(stage, name)) is not None:
                records[i] = ran
            elif stage is None and i in constant:
                evidence = f"{placement.CONSTANT}it belongs to every stage that uses it"
                records[i] = Executed(None, name, evidence, "folded" if self.backend.folds else "fused")
        return records

    def _ran(self, stage: Stage, op: str) -> Executed | None:
        """The record of an op in a stage, on the device of the stage's outputs. `None` before the first run."""
        if self.backend.unread:
            return Executed(None, op, self.backend.unread, placement.NOTHING_TO_READ)
        devices = {self.devices[v] for v in stage.outputs if v in self.devices}
        if len(devices) != 1:
            return None
        said = self.lowered_only or self.backend.evidence
        number, count = self._numbers[stage], len(self._numbers)
        return Executed(devices.pop(), op, f"stage {number} of {count}, {said}")

    def backward(self) -> Iterator[Backward]:
        """The ops that gradients added to the graph, by stage. Ops that depend only on constants have no stage."""
        nodes, moved = self.graph.program.values, {m.outputs[0]: m.op.target for m in self.plan.between}
        for i, variable in self.graph.own():
            if nodes[i].op != "grad":
                continue
            stage, name = self.plan.stage_of.get(variable), str(variable.owner.op)
            if variable in moved:
                known, came = self.devices.get(variable), "device of what the transfer returned"
                yield Backward(i, None, moved[variable], known, name, came if known else "")
            elif stage in self._numbers:
                ran = self._ran(stage, name) or Executed(None, name)
                yield Backward(i, None, stage.device, ran.device, name, ran.evidence, ran.status)

    def _given(self, values: Sequence[Value]) -> list[Value]:
        """The values of all sources, for these arguments."""
        return [*values, *(cell.value for cell in self.state.cells), *self.state.constants]

    def _profile(self, *values: Value) -> ProfiledCall:
        """Run the stages with a thread for each device; the spans of all of them, sorted by start. It perturbs: calls
        are not started ahead, and a stage waits tens of microseconds for its thread."""
        backend, state, steps, given = self.backend, self.state, self.schedule.steps, self._given(values)
        backend.synchronize(given)
        spans: list[Span] = []
        with DeviceThreads(dict.fromkeys(step.device for step in steps)) as threads:
            slots = {i: threads.hold(backend.content(v), backend.device_of(v)) for i, v in enumerate(given)}
            start = time.perf_counter()
            for step in steps:
                inputs = [slots[i] for i in step.inputs]
                source = inputs[0].device if inputs else step.device
                what = f"{source} to {step.device}" if step.stage is None else self.names[step.stage]
                call = self._timed(step, what, start, spans)
                made = threads.submit(step.device, call, inputs, len(step.outputs))
                slots.update(zip(step.outputs, made, strict=True))
            results = [slots[i] for i in self.schedule.outputs]
            contents = [value.wait() for value in results]
            seconds = time.perf_counter() - start
        for cell, content in zip(state.targets, contents[len(contents) - len(state.targets) :], strict=True):
            cell.value = backend.value(content, cell.device)
        return ProfiledCall(sorted(spans, key=lambda span: (span.start, str(span.device))), seconds)

    def _timed(self, step: Instruction, what: str, start: float, spans: list[Span]) -> Callable[..., Sequence[Any]]:
        kind = "transfer" if step.stage is None else "compute"

        def timed(*contents: Any) -> Sequence[Any]:
            begun = time.perf_counter() - start
            if step.stage is None:
                results: Sequence[Any] = [self.backend.copier(step.device)(contents[0])]
            else:
                results = self.compiled[step.stage].call(*contents)
            self.backend.finish(results)
            spans.append(Span(step.device, begun, time.perf_counter() - start, kind, what))
            return results

        return timed
