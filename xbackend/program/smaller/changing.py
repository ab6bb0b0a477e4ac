"""Changes of a program: other outputs, numbers in place of values, bodies in place of loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbackend.errors import DTypeError, ShapeError
from xbackend.program.analyses import between
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.ops import OPS
from xbackend.program.program import Node, Nodes, Program
from xbackend.program.shared import SharedVariable
from xbackend.program.smaller.example import Example

Adapt = Callable[[Node, Sequence[Aval]], Mapping[str, Any]]  # parameters of a node for operands of other shapes
Inlined = tuple[Program, Sequence[int]]  # a body, and its operands


def changed(
    example: Example,
    *,
    outputs: Sequence[int] | None = None,
    given: Mapping[int, np.ndarray] | None = None,
    alias: Mapping[int, int] | None = None,
    inlined: Mapping[int, Inlined] | None = None,
    adapt: Adapt | None = None,
    shared: Mapping[int, np.ndarray] | None = None,
    placed: bool = True,
    updated: bool = True,
) -> Example | None:
    """The changed program, without dead nodes and with its own shared variables; `None` if it is no valid program.

    Args:
        outputs: the values to return.
        given: by value, the array of a new argument in its place, or the new array of an argument.
        alias: by value, the earlier value in its place.
        inlined: by the first output of a node, the body in its place.
        adapt: gives the parameters of a node for its new operands.
        shared: by value, another initial value of a shared variable.
        placed: keep devices.
        updated: keep the updates of shared variables that are left.
    """
    program, alias, inlined = example.program, alias or {}, inlined or {}
    arguments = {**example.argument, **(given or {})}
    first = {i: (shared or {}).get(i, one.value) for i, one in program.shared.items()}
    ends = [_followed(i, alias) for i in (program.outputs if outputs is None else outputs)]
    updates = {i: _followed(j, alias) for i, j in program.updates.items() if updated and i not in arguments}
    needed = _needed(program, [*ends, *updates, *updates.values()], arguments, alias, inlined)
    writing = _Writing(program, arguments, alias, inlined, adapt, first, placed)
    writing.names = {program.values[i].params["name"] for i in needed if i in example.argument}
    try:
        for node in program.nodes:
            writing.write(node, [i for i in node.outputs if i in needed])
    except (ShapeError, DTypeError, LookupError):
        return None
    results = [writing.at[i] for i in ends]
    form = "*" if len(results) == 1 else {"tuple": ["*"] * len(results)}
    renewed = {writing.at[i]: writing.at[j] for i, j in updates.items()}
    left = writing.nodes.program(program.name, writing.inputs, results, form, writing.variables, renewed)
    if not _whole(left):
        return None
    smaller = Example(left, tuple(writing.arrays))
    return changed(smaller) if inlined else smaller  # without dead nodes of the body


@dataclass
class _Writing:
    """The changes, and the program so far; ``at`` has the new number of a value."""

    program: Program
    arguments: Mapping[int, np.ndarray]
    alias: Mapping[int, int]
    inlined: Mapping[int, Inlined]
    adapt: Adapt | None
    first: Mapping[int, np.ndarray]
    placed: bool
    at: dict[int, int] = field(default_factory=dict)
    nodes: Nodes = field(default_factory=Nodes)
    inputs: list[int] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    variables: dict[int, SharedVariable] = field(default_factory=dict)

    def write(self, node: Node, wanted: Sequence[int]) -> None:
        """Write a node for these outputs of it. Raises `ShapeError`, `DTypeError`, `LookupError`."""
        for i in wanted:
            if i in self.arguments:
                self.argument(i, node)
        if all(i in self.arguments or i in self.alias for i in wanted):
            return
        if node.outputs[0] in self.inlined:
            self.inline(node, *self.inlined[node.outputs[0]])
            return
        inputs = [self.at[_followed(j, self.alias)] for j in node.inputs]
        avals = [self.nodes.values[j].aval for j in inputs]
        params = dict(self.adapt(node, avals)) if self.adapt else node.params
        if node.op == "shared":
            params = {**params, "shape": self.first[node.outputs[0]].shape}
        made = self.add(node, inputs, params, OPS[node.op].results(avals, params))
        if node.op == "shared":
            old = self.program.shared[node.outputs[0]]
            device = old.device if self.placed else None
            self.variables[made[0]] = SharedVariable(self.first[node.outputs[0]], old.name, device)
        for i, new in zip(node.outputs, made, strict=True):
            self.at.setdefault(i, new)

    def add(
        self, node: Node, inputs: Sequence[int], params: Mapping[str, Any], results: Sequence[Aval]
    ) -> Sequence[int]:
        device = node.device if self.placed else None
        return self.nodes.add(node.op, inputs, params, results, device=device, source=node.source)

    def argument(self, i: int, node: Node) -> None:
        """Write an argument under a free name."""
        if node.op == "input":
            self.names.discard(node.params["name"])
        name = node.params["name"] if node.op in ("input", "shared") else "x"
        found, number = name, 2
        while found in self.names:
            found, number = f"{name}{number}", number + 1
        self.names.add(found)
        array = self.arguments[i]
        aval = Aval(array.shape, DType(array.dtype.name))
        (new,) = self.nodes.add("input", (), {"name": found, **aval._asdict()}, (aval,), source=node.source)
        self.at[i] = new
        self.inputs.append(new)
        self.arrays.append(array)

    def inline(self, node: Node, body: Program, arguments: Sequence[int]) -> None:
        """Write a body in place of a loop or a choice. Its operands and results are reshaped to fit."""
        inside: dict[int, int] = {}
        for i, j in zip(body.inputs, arguments, strict=True):
            inside[i] = self.fitted(self.at[_followed(j, self.alias)], body.values[i].shape, node)
        for each in body.nodes:
            if each.op != "input":
                made = self.add(each, [inside[j] for j in each.inputs], each.params, each.results)
                inside.update(zip(each.outputs, made, strict=True))
        for i, j, aval in zip(node.outputs, body.outputs, node.results, strict=True):
            self.at[i] = self.fitted(inside[j], aval.shape, node)

    def fitted(self, i: int, shape: tuple[int, ...], node: Node) -> int:
        value = self.nodes.values[i]
        if value.shape == shape:
            return i
        device = node.device if self.placed else None
        aval = Aval(shape, value.dtype)
        (made,) = self.nodes.add("reshape", (i,), {"shape": shape}, (aval,), device=device, source=node.source)
        return made


def _followed(i: int, alias: Mapping[int, int]) -> int:
    while i in alias:
        i = alias[i]
    return i


def _needed(
    program: Program,
    outputs: Sequence[int],
    given: Mapping[int, Any],
    alias: Mapping[int, int],
    inlined: Mapping[int, Inlined],
) -> set[int]:
    found, todo = set[int](), list(outputs)
    while todo:
        i = _followed(todo.pop(), alias)
        if i not in found:
            found.add(i)
            if i not in given:
                node = program.values[i].node
                todo += inlined[node.outputs[0]][1] if node.outputs[0] in inlined else node.inputs
    return found


def _whole(program: Program) -> bool:
    """Whether updates fit, each gradient's loss depends on its targets, and axes are within ranks."""
    if any(program.values[i].aval != program.values[j].aval for i, j in program.updates.items()):
        return False
    for node in program.nodes:
        if node.op == "grad":
            loss, *wrt = node.inputs
            found, _ = between(program, loss, wrt)
            if not set(wrt) <= set(found) or loss in wrt:
                return False
        axis = node.params.get("axis", ())
        rank = len(program.values[node.inputs[0]].shape) + (node.op == "stack") if node.inputs else 0
        if any(not 0 <= a < rank for a in (axis if isinstance(axis, tuple) else (axis,))):
            return False
    return True
