"""A program lowered to a graph that is cut into stages, and how its compiled stages become one callable."""

from __future__ import annotations

import abc
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbackend.backends import threads
from xbackend.backends.contract import Backend, Built, Value
from xbackend.backends.description import Description, versions
from xbackend.backends.device_threads import DeviceThreads
from xbackend.backends.modes import Compiled, Mode
from xbackend.backends.placed import Plan, Schedule, Stage, State, Step, straight_line
from xbackend.backends.placement import CONSTANT, Backward, Executed, Execution, Span, Transferred, with_folded
from xbackend.devices import Device
from xbackend.errors import PlacementError, UnsupportedOperation
from xbackend.program import analyses
from xbackend.program.host import native
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program, generate

Variable = Any  # of the framework


@dataclass
class Lowered:
    """A program lowered: its framework variables by node, and those whose values come from outside."""

    program: Program
    variables: list[Variable] = field(default_factory=list)
    arguments: list[Variable] = field(default_factory=list)
    shared: dict[int, Variable] = field(default_factory=dict)
    resident: dict[int, Variable] = field(default_factory=dict)  # large constants
    sources: dict[Variable, Device] = field(default_factory=dict)

    def device(self, node: int) -> Device:
        return Device.parse(self.program.nodes[node].device or "")

    def own(self) -> Iterator[tuple[int, Variable]]:
        """The variables that are computed, each with the first node that needs it; after it those that it needs.

        So those of a gradient are the ones that its backward pass adds to the graph.
        """
        seen: set[Variable] = set()
        for i, variable in enumerate(self.variables):
            todo = [variable]
            while todo:
                v = todo.pop()
                if v.owner is not None and v not in seen:
                    seen.add(v)
                    todo += v.owner.inputs
                    yield i, v


class StagedBackend(Backend):
    """A backend whose programs are graphs, cut into stages that ``mode`` computes. Subclasses make it in ``start``."""

    packages: tuple[str, ...] = ()  # whose versions are told, beside those of the mode
    folds: bool = True  # whether what depends on constants only is computed while compiling
    mode: Mode

    @abc.abstractmethod
    def compile_stage(self, label: str, stage: Stage, mutable: Collection[Variable] = ()) -> Compiled:
        """A part of the graph, compiled for its device; inputs that are mutable may be overwritten.

        Raises `UnsupportedOperation`.
        """

    def unsupported(self, what: str, node: Node | None, error: Exception) -> Exception:
        """What to raise for an error of the framework while lowering or compiling."""
        if isinstance(error, MemoryError | UnsupportedOperation):
            return error
        where = f" (at {node.source})" if node is not None and node.source else ""
        reason = str(error).strip() or "no reason given"
        return UnsupportedOperation(
            f"backend {self.name} cannot do {what}{where}: {type(error).__name__}: {reason[:2000]}"
        )

    def limit_threads(self) -> None:
        """Libraries read these when they are loaded; those of NumPy already are, and are limited by threadpoolctl."""
        if self.settings.threads is not None:
            os.environ.update(threads.environment(self.settings.threads))
            os.environ["NPROC"] = str(self.settings.threads)  # XLA's (tsl/platform/cpu_info)

    def put(self, array: np.ndarray, device: Device) -> Value:
        return self.mode.put(native(array), device)

    def get(self, value: Value) -> np.ndarray:
        return self.mode.get(value)

    def device_of(self, value: Value) -> Device:
        return self.mode.device_of(value)

    def synchronize(self, values: Iterable[Value]) -> None:
        self.mode.synchronize(values)

    def compilations(self) -> dict[str, int]:
        return self.mode.compilations()

    def is_out_of_memory(self, error: BaseException) -> bool:
        return self.mode.is_out_of_memory(error)

    def shut(self) -> None:
        self.mode.shut()

    def describe(self) -> Description:
        return Description(
            versions=versions(*self.packages, *self.mode.packages),
            devices=[str(d) for d in self.devices],
            threads={**{str(pool.file): pool.threads for pool in threads.pools()}, **self.mode.threads()},
            blas=[self.mode.blas()],
            settings=self.mode.settings(),
            notes={"stages": self.mode.stages, "added": "; ".join((*self.added, *self.mode.added))},
        )


class Assembly:
    """The compiled stages of one program, put together to one callable."""

    def __init__(self, backend: StagedBackend, graph: Lowered, plan: Plan) -> None:
        self.backend, self.graph, self.plan = backend, graph, plan
        program = graph.program
        self.cells = {i: backend.storage(program.shared[i]) for i in graph.shared}
        self.constants = [backend.put(np.array(generate(program.nodes[i])), graph.device(i)) for i in graph.resident]
        self.sources = [*graph.arguments, *graph.shared.values(), *graph.resident.values()]
        self.outputs = [graph.variables[i] for i in (*program.outputs, *program.updates.values())]
        targets = [self.cells[i] for i in program.updates]
        self.state = State(list(self.cells.values()), self.constants, targets, backend.mode.confirm)
        self.devices: dict[Variable, Device] = {}  # read from the framework after an execution
        self.bytes: dict[Variable, int] = {}
        self._numbers = {stage: k for k, stage in enumerate(plan.stages)}

    def built(self) -> Built:
        one_device = len({*self.graph.sources.values(), *(s.device for s in self.plan.stages)}) <= 1
        mode, name = self.backend.mode, self.graph.program.name
        if one_device and not self.plan.moves and mode.plain:
            compiled = self._whole(name)
            schedule = Schedule(self._one_stage(compiled.device), self.sources, self.outputs)
            stateless = not self.cells and not self.constants
            execute = compiled.call if stateless else straight_line(schedule, [compiled.call], {}, self.state, name)
            return Built(execute, self._executed, Profiler(mode, schedule, [compiled], self.state, [name]))
        names = [f"stage {k} of {name}" for k in range(len(self.plan.stages))]
        compiled_stages = [self.backend.compile_stage(n, s) for n, s in zip(names, self.plan.stages, strict=True)]
        schedule = Schedule(self.plan, self.sources, self.outputs)
        profile = Profiler(mode, schedule, compiled_stages, self.state, names)
        return Built(self._staged(schedule, compiled_stages), self._executed, profile)

    def _whole(self, name: str) -> Compiled:
        """One stage on one device: the framework's innermost callable itself, unless there is state."""
        backend, graph = self.backend, self.graph
        # What is updated may be overwritten in place, as in a function of the framework with updates. With several
        # devices that would need care: a value could be part of two stages.
        alone = len(backend.devices) == 1
        mutable = {graph.shared[i] for i in graph.program.updates} if alone and backend.mode.mutates else set()
        compiled = backend.compile_stage(name, self._one_stage(self._device()).stages[0], mutable)
        self.devices.update(dict.fromkeys(self.outputs, compiled.device))
        return compiled

    def _device(self) -> Device:
        return next(iter(self.graph.sources.values()), None) or self.graph.device(self.graph.program.outputs[0])

    def _one_stage(self, device: Device) -> Plan:
        return Plan((Stage(0, device, self.sources, self.outputs),), (), {})

    def _staged(self, schedule: Schedule, compiled: Sequence[Compiled]) -> Callable[..., Sequence[Value]]:
        """All stages in straight line; the first run is watched, to see where each value is."""
        mode, fresh = self.backend.mode, True
        calls = [mode.on_device(c, len(s.outputs)) for c, s in zip(compiled, self.plan.stages, strict=True)]
        moves = {d: mode.mover(d) for d in dict.fromkeys(m.device for m in self.plan.moves)}
        run = straight_line(schedule, calls, moves, self.state, self.graph.program.name)

        def execute(*values: Value) -> Sequence[Value]:
            nonlocal fresh
            if fresh:
                results = self._watched(schedule, compiled, calls, moves, values)
                fresh = False
                return results
            return run(*values)

        return execute

    def _watched(
        self,
        schedule: Schedule,
        compiled: Sequence[Compiled],
        calls: Sequence[Callable[..., Sequence[Value]]],
        moves: Mapping[Device, Callable[[Value], Value]],
        values: Sequence[Value],
    ) -> Sequence[Value]:
        """The results of one run, every value of which is asked where it is. Raises `PlacementError` where a stage
        cannot run because it or a value is not where it is to be."""
        mode, state, slots = self.backend.mode, self.state, dict[int, Value]()
        given = [*values, *(cell.value for cell in state.cells), *state.constants]
        slots.update(enumerate(given))
        for step in schedule.steps:
            inputs = [slots[i] for i in step.inputs]
            if step.stage is None:
                results: Sequence[Value] = [moves[step.device](*inputs)]
            else:
                try:
                    results = calls[step.stage](*inputs)
                except Exception as error:
                    there = {mode.device_of(value) for value in inputs}
                    if not there - {step.device} and compiled[step.stage].device == step.device:
                        raise
                    raise PlacementError(
                        f"stage {step.stage} of {self.graph.program.name} is to run on {step.device} on backend "
                        f"{self.backend.name}, was compiled for {compiled[step.stage].device} and given values on "
                        f"{', '.join(sorted(map(str, there)))}: {error}"
                    ) from error
            slots.update(zip(step.outputs, results, strict=True))
        self.devices = {v: mode.device_of(slots[i]) for v, i in schedule.slots.items()}
        self.bytes = {v: mode.content(slots[i]).nbytes for v, i in schedule.slots.items()}
        outputs = [slots[i] for i in schedule.outputs]
        first = len(outputs) - len(state.targets)
        for cell, value in zip(state.targets, outputs[first:], strict=True):
            cell.value = value
        return outputs[:first]

    def _executed(self) -> Execution:
        return Execution(self._ops(), self._transfers(), with_folded(self.graph.program, self._backward()))

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
        constant, records = analyses.constant(self.graph.program), {}
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
            device, evidence = self._ran(stage) if stage is not None else (None, "")
            if device is not None:
                records[i] = Executed(device, name, evidence)
            elif stage is None and i in constant:
                evidence = f"{CONSTANT}it belongs to every stage that uses it"
                records[i] = Executed(None, name, evidence, "folded" if self.backend.folds else "fused")
        return records

    def _ran(self, stage: Stage) -> tuple[Device | None, str]:
        """Where a stage ran: on the device of its outputs. How that is known."""
        devices = {self.devices[v] for v in stage.outputs if v in self.devices}
        if len(devices) != 1:
            return None, ""
        number = self._numbers[stage]
        return next(iter(devices)), f"stage {number} of {len(self._numbers)}, {self.backend.mode.evidence}"

    def _backward(self) -> Iterator[Backward]:
        """The ops that gradients added to the graph, by the stage that they were compiled in. Those that depend on
        constants only are in no stage of their own."""
        nodes, moved = self.graph.program.nodes, {m.target: m.device for m in self.plan.moves}
        for i, variable in self.graph.own():
            if nodes[i].op != "grad":
                continue
            stage, name = self.plan.stage_of.get(variable), str(variable.owner.op)
            if variable in moved:
                evidence = "device of what the transfer returned"
                yield Backward(i, None, moved[variable], self.devices.get(variable), name, evidence)
            elif stage in self._numbers:
                device, evidence = self._ran(stage)
                yield Backward(i, None, stage.device, device, name, evidence)


class Profiler:
    """Runs the stages of a program with a thread for each device, and says when each of them computed.

    Each stage starts when its inputs are there and its device is free, and is waited for in its device's thread;
    a transfer is made by the thread of the device that receives. So stages on different devices overlap as far as the
    framework and the cores let them. What it perturbs: calls are not started ahead of the computation, a stage waits
    until a thread takes it up (tens of microseconds), transfers do not overlap with the receiving device's own work.
    """

    def __init__(
        self, mode: Mode, schedule: Schedule, compiled: Sequence[Compiled], state: State, names: Sequence[str]
    ) -> None:
        self.mode, self.schedule, self.compiled, self.state, self.names = mode, schedule, compiled, state, names

    def __call__(self, *values: Value) -> list[Span]:
        """Seconds after the start, sorted by their start. Updates take effect."""
        mode, state, steps = self.mode, self.state, self.schedule.steps
        given = [*values, *(cell.value for cell in state.cells), *state.constants]
        mode.synchronize(given)
        spans: list[Span] = []
        with DeviceThreads(dict.fromkeys(step.device for step in steps)) as threads:
            slots = {i: threads.hold(mode.content(v), mode.device_of(v)) for i, v in enumerate(given)}
            start = time.perf_counter()
            for step in steps:
                inputs = [slots[i] for i in step.inputs]
                call = self._timed(step, inputs[0].device if inputs else step.device, start, spans)
                slots.update(
                    zip(step.outputs, threads.submit(step.device, call, inputs, len(step.outputs)), strict=True)
                )
            results = [slots[i] for i in self.schedule.outputs]
            contents = [value.wait() for value in results]
        for cell, content in zip(state.targets, contents[len(contents) - len(state.targets) :], strict=True):
            cell.value = mode.value(content, cell.device)
        return sorted(spans, key=lambda span: (span.start, str(span.device)))

    def _timed(self, step: Step, source: Device, start: float, spans: list[Span]) -> Callable[..., Sequence[Any]]:
        mode = self.mode
        kind = "transfer" if step.stage is None else "compute"
        what = f"{source} to {step.device}" if step.stage is None else self.names[step.stage]

        def timed(*contents: Any) -> Sequence[Any]:
            begun = time.perf_counter() - start
            if step.stage is None:
                results: Sequence[Any] = [mode.copy(contents[0], step.device)]
            else:
                results = self.compiled[step.stage].call(*contents)
            mode.finish(results)
            spans.append(Span(step.device, begun, time.perf_counter() - start, kind, what))
            return results

        return timed
