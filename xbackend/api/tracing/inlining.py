"""Calls of a program inside of another one, which gets its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import copied
from xbackend.api.tracing.scopes import place
from xbackend.api.tracing.state import update
from xbackend.api.tracing.tracer import Tracer, current
from xbackend.errors import ArgumentError
from xbackend.program.program import Program, Value
from xbackend.program.structure import unflatten


def inline(program: Program, arguments: Sequence[Any]) -> Any:
    """The results of the program for the arguments: arrays of the program being traced, in the program's structure.

    The nodes keep their source lines and devices; nodes without a device take the scope's. Shared variables stay the
    same, and updates become updates of the program being traced. Raises `ArgumentError` for arguments of other shapes
    or dtypes, `SharedVariableError` for a second update, `TraceError` outside of tracing.
    """
    tracer = current(f"a call of the program {program.name}")
    if len(arguments) != len(program.inputs):
        raise ArgumentError(f"{program!r} takes {len(program.inputs)} arrays, {len(arguments)} were given")
    inside: dict[int, Array] = {}
    targets = {i for node in program.nodes if node.op == "grad" for i in node.inputs[1:]}
    for i, value in zip(program.inputs, arguments, strict=True):
        inside[i] = _argument(tracer, program.values[i], tracer.array(value), i in targets)
    for node in program.nodes:
        if node.op == "shared":
            inside[node.outputs[0]] = tracer.shared(program.shared[node.outputs[0]])
        elif node.op != "input":
            inputs = [inside[j].node for j in node.inputs]
            moved = tracer.written.add(
                node.op, inputs, node.params, node.results, device=place(node.device), source=node.source
            )
            made = [Array(tracer, i, *aval) for i, aval in zip(moved, node.results, strict=True)]
            inside.update(zip(node.outputs, made, strict=True))
    for target, expression in program.updates.items():
        update(program.shared[target], inside[expression])
    return unflatten(program.structure, [inside[i] for i in program.outputs])


def _argument(tracer: Tracer, node: Value, given: Array, has_gradient: bool) -> Array:
    """The array for an input of the program. Raises `ArgumentError`."""
    if (given.shape, given.dtype) != (node.shape, node.dtype):
        raise ArgumentError(
            f"argument {node.params['name']!r} is {node.aval}, was given {given!r}; shapes and dtypes are fixed when a "
            "program is traced"
        )
    if not has_gradient:
        return given
    # A gradient inside of the program is with respect to this input alone. Another argument may depend on the same
    # array, so the input must be a separate one.
    return copied(given) if node.device is None else tracer.emit("transfer", (given,), {}, node.device)
