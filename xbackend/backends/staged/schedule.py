"""The schedule of a plan's stages and transfers, and its code as one Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xbackend.backends.codegen import FunctionSource
from xbackend.devices import Device
from xbackend.program.analyses import last_uses
from xbackend.program.stages import Plan, Variable

Value = Any


@dataclass(frozen=True, slots=True)
class State:
    """The inputs of a program beside its arguments: ``cells`` of shared variables, ``constants`` on their devices. The
    last outputs go into ``targets``, some of the cells, once ``confirm`` has checked that all outputs exist."""

    cells: Sequence[Any] = ()
    constants: Sequence[Value] = ()
    targets: Sequence[Any] = ()
    confirm: Callable[[Sequence[Value]], None] | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """A stage (by its number) or a transfer, with its slots; no later instruction reads the slots ``last``."""

    device: Device
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stage: int | None = None
    last: tuple[int, ...] = ()


class StageSchedule:
    """The stages and transfers of a plan in the order of their start, with values in numbered slots, ``sources``
    first."""

    def __init__(self, plan: Plan, sources: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        self.slots: dict[Variable, int] = {}
        for variable in sources:
            self._slot(variable)
        self.count = len(self.slots)
        waiting: dict[Variable, list[Any]] = {}
        for move in plan.between:
            waiting.setdefault(move.inputs[0], []).append(move)
        # A transfer starts as early as possible, as another device waits for it.
        steps = self._moves(waiting, sources)
        for number, stage in enumerate(plan.stages):
            inputs, made = tuple(map(self._slot, stage.inputs)), tuple(map(self._slot, stage.outputs))
            steps.append(Instruction(stage.device, inputs, made, number))
            steps += self._moves(waiting, stage.outputs)
        self.outputs = [self.slots[v] for v in outputs]
        last = last_uses([(*step.inputs, *step.outputs) for step in steps], self.outputs)
        self.steps = [replace(step, last=mine) for step, mine in zip(steps, last, strict=True)]

    def _slot(self, variable: Variable) -> int:
        return self.slots.setdefault(variable, len(self.slots))

    def _moves(self, waiting: Mapping[Variable, list[Any]], available: Iterable[Variable]) -> list[Instruction]:
        """The transfers of these variables, and of their results in turn."""
        todo, steps = list(available), []
        for variable in todo:
            for move in waiting.get(variable, ()):
                todo.append(move.outputs[0])
                steps.append(Instruction(move.op.target, (self._slot(variable),), (self._slot(move.outputs[0]),)))
        return steps


def straight_line(
    schedule: StageSchedule,
    calls: Sequence[Callable[..., Sequence[Value]]],
    moves: Mapping[Device, Callable[[Value], Value]],
    state: State,
    title: str = "stages",
) -> Callable[..., list[Value]]:
    """The schedule as one straight-line Python function of the first sources, which adds no cost to its ``calls`` (the
    stages') and ``moves`` (copies to a device), and drops each value after its last use. Other sources are in
    ``state``."""
    given = schedule.count - len(state.cells) - len(state.constants)
    source = FunctionSource(title, [f"v{i}" for i in range(given)])
    objects, number = source.objects, {device: k for k, device in enumerate(moves)}
    objects["confirm"] = state.confirm
    objects.update((f"call{k}", call) for k, call in enumerate(calls))
    objects.update((f"move{number[device]}", move) for device, move in moves.items())
    for k, cell in enumerate(state.cells):
        objects[f"cell{k}"] = cell
        source.line(f"v{given + k} = cell{k}.value")
    for k, constant in enumerate(state.constants, given + len(state.cells)):
        objects[f"constant{k}"] = constant
        source.line(f"v{k} = constant{k}")
    for step in schedule.steps:
        read, made = (", ".join(f"v{i}" for i in slots) for slots in (step.inputs, step.outputs))
        last = [f"v{i}" for i in step.last]
        if step.stage is None:
            source.step(made, f"move{number[step.device]}({read})", last)
        else:
            source.step(f"[{made}]", f"call{step.stage}({read})", last)
    first = len(schedule.outputs) - len(state.targets)
    updates = schedule.outputs[first:]
    if updates and state.confirm is not None:
        source.line(f"confirm([{', '.join(f'v{i}' for i in schedule.outputs)}])")
    for k, (cell, i) in enumerate(zip(state.targets, updates, strict=True)):
        objects[f"target{k}"] = cell
        source.line(f"target{k}.value = v{i}")
    source.line(f"return [{', '.join(f'v{i}' for i in schedule.outputs[:first])}]")
    return source.compile()
