"""A program with its arguments, and the same with parts of it changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from xbackend.errors import DTypeError, ShapeError
from xbackend.program.analyses import between, everywhere
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.ops import GENERATORS, OPS, SOURCES
from xbackend.program.program import Node, Nodes, Program, generate
from xbackend.program.shared import SharedVariable

LOOP = 3  # so many ops more is a loop or a choice worth
LEGIBLE = 4096  # elements of an array whose digits are counted

Compute = Callable[[Program, Sequence[np.ndarray]], Sequence[np.ndarray]]
Adapt = Callable[[Node, Sequence[Aval]], Mapping[str, Any]]  # parameters of a node for operands of other shapes
Inlined = tuple[Program, Sequence[int]]  # a body, and the values that it takes


@dataclass(frozen=True, eq=False)
class Example:
    """A program and its arguments."""

    program: Program
    arrays: tuple[np.ndarray, ...]

    @cached_property
    def key(self) -> str:
        """The same for the same program with the same numbers."""
        digest = hashlib.sha256(self.program.fingerprint.encode())
        for array in (*self.arrays, *(one.value for one in self.program.shared.values())):
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        return digest.hexdigest()

    @cached_property
    def cost(self) -> tuple[float, ...]:
        """How large it is: ops first, then elements, then the digits of numbers."""
        numbers = [*self.arrays, *self.constants.values()]
        placed = sum(node.device is not None for node in self.program.nodes)
        return (
            self.ops + LOOP * sum(bool(node.bodies) for node in everywhere(self.program)),
            len(self.program.updates) + len(self.program.shared) + placed,
            len(self.program.outputs),
            sum(array.size for array in numbers) + sum(value.aval.size for value in self.program.values),
            len(self.arrays) + sum(len(value.shape) for value in self.program.values),
            sum(map(digits, numbers)),
        )

    @cached_property
    def ops(self) -> int:
        """How many ops it has, those of bodies included."""
        return sum(node.op not in SOURCES for node in everywhere(self.program))

    @property
    def elements(self) -> int:
        """How many numbers its arguments have."""
        return sum(array.size for array in self.arrays)

    @cached_property
    def constants(self) -> dict[int, np.ndarray]:
        """The numbers that the program itself has, by value: an array, or the one number that fills one."""
        return {
            node.outputs[0]: node.params["value"] if node.op == "constant" else np.asarray(node.params["fill_value"])
            for node in self.program.nodes
            if node.op in ("constant", "full")
        }

    @cached_property
    def argument(self) -> dict[int, np.ndarray]:
        """The arguments, by value."""
        return dict(zip(self.program.inputs, self.arrays, strict=True))

    def computed(self, compute: Compute) -> dict[int, np.ndarray]:
        """All values of the program, by number."""
        wanted = [i for i, value in enumerate(self.program.values) if value.op not in SOURCES]
        shown = changed(self, outputs=wanted) if wanted else None
        results = compute(shown.program, shown.arrays) if shown is not None else []
        known = {node.outputs[0]: generate(node) for node in self.program.nodes if node.op in GENERATORS}
        known |= {i: one.value for i, one in self.program.shared.items()}
        return known | self.argument | dict(zip(wanted, map(np.asarray, results), strict=True))


def digits(array: np.ndarray) -> float:
    """How much there is to read in numbers: 0 for 0, 1 for 1, more for longer ones."""
    if array.size > LEGIBLE:
        return 20.0 * np.count_nonzero(array)
    return sum(map(_digits, array.reshape(-1)))


def _digits(number: Any) -> float:
    if number == 0:
        return 0.5 if np.signbit(number) else 0.0
    if number == 1:
        return 1.0
    if not np.isfinite(number):
        return 2.0
    mantissa, _, exponent = np.format_float_scientific(float(number), trim="-", exp_digits=1).partition("e")
    return 1.0 + len(mantissa.replace(".", "")) + abs(int(exponent)) / 1000


@dataclass
class _Writing:
    """A program that is written again with changes."""

    of: Program
    at: dict[int, int] = field(default_factory=dict)  # the new number of a value
    nodes: Nodes = field(default_factory=Nodes)
    inputs: list[int] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def argument(self, i: int, name: str, array: np.ndarray, source: str) -> None:
        found, number = name, 2
        while found in self.names:
            found, number = f"{name}{number}", number + 1
        self.names.add(found)
        aval = Aval(array.shape, DType(array.dtype.name))
        (new,) = self.nodes.add("input", (), {"name": found, **aval._asdict()}, (aval,), source=source)
        self.at[i] = new
        self.inputs.append(new)
        self.arrays.append(array)


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
    """The program with changes, without what no output or update needs, and with shared variables of its own; `None`
    where that is no program.

    Args:
        outputs: the values that are returned.
        given: numbers in place of these values, as arguments; for arguments others.
        alias: other values, of lower numbers, in place of these.
        inlined: a body in place of the node that makes this value first.
        adapt: parameters of nodes.
        shared: other first values of shared variables.
        placed: keep devices.
        updated: keep the updates of shared variables that are left.
    """
    program, given, alias, inlined = example.program, given or {}, alias or {}, inlined or {}
    arguments = {**example.argument, **given}
    outputs = program.outputs if outputs is None else outputs
    outputs = [_followed(i, alias) for i in outputs]
    updates = {i: _followed(j, alias) for i, j in program.updates.items() if updated and i not in given}
    needed = _needed(program, [*outputs, *updates, *updates.values()], arguments, alias, inlined)
    writing = _Writing(program, names={program.values[i].params["name"] for i in needed if i in example.argument})
    variables: dict[int, SharedVariable] = {}
    try:
        for node in program.nodes:
            wanted = [i for i in node.outputs if i in needed]
            for i in wanted:
                if i in arguments:
                    own = node.op in ("input", "shared")
                    writing.names.discard(node.params["name"] if node.op == "input" else "")
                    writing.argument(i, node.params["name"] if own else "x", arguments[i], node.source)
            if all(i in arguments or i in alias for i in wanted):
                continue
            device = node.device if placed else None
            if node.outputs[0] in inlined:
                _inline(writing, node, inlined[node.outputs[0]], device)
                continue
            inputs = [writing.at[_followed(j, alias)] for j in node.inputs]
            avals = [writing.nodes.values[j].aval for j in inputs]
            params = dict(adapt(node, avals)) if adapt else node.params
            if node.op == "shared":
                value = (shared or {}).get(node.outputs[0], program.shared[node.outputs[0]].value)
                params = {**params, "shape": value.shape}
            results = OPS[node.op].results(avals, params)
            made = writing.nodes.add(node.op, inputs, params, results, device=device, source=node.source)
            if node.op == "shared":
                old = program.shared[node.outputs[0]]
                variables[made[0]] = SharedVariable(value, old.name, old.device if placed else None)
            for i, new in zip(node.outputs, made, strict=True):
                writing.at.setdefault(i, new)
    except (ShapeError, DTypeError, LookupError):
        return None
    ends = [writing.at[i] for i in outputs]
    form = "*" if len(ends) == 1 else {"tuple": ["*"] * len(ends)}
    renewed = {writing.at[i]: writing.at[j] for i, j in updates.items()}
    left = writing.nodes.program(program.name, writing.inputs, ends, form, variables, renewed)
    if not _whole(left):
        return None
    smaller = Example(left, tuple(writing.arrays))
    return changed(smaller) if inlined else smaller  # a body may have more than is needed


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


def _inline(writing: _Writing, node: Node, inlined: Inlined, device: str | None) -> None:
    """The nodes of a body in place of a loop or a choice; its arguments, and its results, get the shapes they need."""
    body, arguments = inlined
    inside: dict[int, int] = {}

    def fitted(i: int, shape: tuple[int, ...]) -> int:
        value = writing.nodes.values[i]
        if value.shape == shape:
            return i
        aval = Aval(shape, value.dtype)
        made = writing.nodes.add("reshape", (i,), {"shape": shape}, (aval,), device=device, source=node.source)
        return made[0]

    for i, j in zip(body.inputs, arguments, strict=True):
        inside[i] = fitted(writing.at[j], body.values[i].shape)
    for each in body.nodes:
        if each.op == "input":
            continue
        made = writing.nodes.add(
            each.op, [inside[j] for j in each.inputs], each.params, each.results, device=device, source=each.source
        )
        inside.update(zip(each.outputs, made, strict=True))
    for i, j, aval in zip(node.outputs, body.outputs, node.results, strict=True):
        writing.at[i] = fitted(inside[j], aval.shape)


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
