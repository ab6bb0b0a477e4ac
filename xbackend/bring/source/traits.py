"""Properties of programs, and statements, that several dialects use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xbackend.bring.source.expressions import Expr, call, method
from xbackend.bring.source.rows import WRITING
from xbackend.bring.source.writer import Scope
from xbackend.program.analyses import everywhere
from xbackend.program.dtypes import DType
from xbackend.program.program import Node, Program

# No gradient goes through these.
_FLAT = ("floor", "ceil", "round", "trunc", "sign", "floor_divide", "while_loop", "grad")


def dtypes(program: Program) -> set[DType]:
    """The dtypes in a program, bodies included."""
    return {dtype for node in everywhere(program) for _, dtype in node.results}


def padded(scope: Scope, node: Node, function: str) -> None:
    """Pad the images of a convolution in a statement before it."""
    if node.op == "conv2d" and any(node.params["padding"]):
        above, below, left, right = node.params["padding"]
        i = node.inputs[0]
        name = scope.names.new("padded")
        widths = f"[(0, 0), ({above}, {below}), ({left}, {right}), (0, 0)]"
        made = call(function, scope.name(i), widths)
        if function == "pt.pad" and node.dtype is DType.float32:  # it pads with float64
            made = method(made, "astype", '"float32"')
        scope.say(f"{name} = ", made)
        scope.replaced[i] = Expr(name)


def connected(program: Any, loss: int, wrt: Sequence[int]) -> bool:
    """Whether a gradient certainly reaches each target, through floating-point values. That is not certain through a
    loop or a choice, whose body may ignore a target, nor through one element or none that is written into an array, as
    some rows then write one of the two alone."""
    reached, todo = set[int](), [loss]
    while todo:
        i = todo.pop()
        value = program.values[i]
        if i in reached or not value.dtype.is_floating:
            continue
        reached.add(i)
        if value.op in ("scan", "cond") or (value.op in WRITING and value.aval.size <= 1) or not value.aval.size:
            return False
        if value.op not in _FLAT:
            todo += value.inputs
    return reached.issuperset(wrt)
