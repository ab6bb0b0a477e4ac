"""Rows of loops and choices. Their bodies are graphs, which see the values around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xbackend.bring.onnx.elementwise import Row
from xbackend.bring.onnx.graph import Use
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType

_FRONT = -(2**63)


def _scan(use: Use) -> Sequence[str]:
    """A loop over rows, of zeros where it has no sequence. A loop from the last row on goes over reversed ones."""
    params, body = use.params, use.params["body"]
    carries, count = params["carries"], params["carries"] + params["sequences"]
    rows = [_reversed(use, x) if params["reverse"] else x for x in use.inputs[carries:count]]
    inner = use.graph.inner()
    own = enumerate(body.inputs[:count])
    names = [inner.input("state" if k < carries else "row", body.values[i].aval) for k, i in own]
    if not rows:
        rows = [use.graph.constant(np.zeros(params["length"], bool))]
        inner.input("row", Aval((), DType.bool))
    for i, name in zip(body.outputs, use.inlined(inner, body, [*names, *use.inputs[count:]]), strict=True):
        inner.output(name, body.values[i].aval)
    operands = [*use.inputs[:carries], *rows]
    made = use.graph.add("Scan", operands, len(use.node.outputs), body=inner, num_scan_inputs=len(rows))
    return [_reversed(use, name) if params["reverse"] and k >= carries else name for k, name in enumerate(made)]


def _reversed(use: Use, x: str) -> str:
    return use("Slice", x, use.ints(-1), use.ints(_FRONT), use.ints(0), use.ints(-1))


def _while_loop(use: Use) -> Sequence[str]:
    """The condition is computed before the loop, and at the end of each step."""
    params, body, condition = use.params, use.params["body"], use.params["condition"]
    carries = params["carries"]
    (begins,) = use.inlined(use.graph, condition, use.inputs)
    inner = use.graph.inner()
    inner.input("step", Aval((), DType.int64))
    inner.input("goes_on", Aval((), DType.bool))
    state = [inner.input("state", body.values[i].aval) for i in body.inputs[:carries]]
    closed = use.inputs[carries:]
    state = use.inlined(inner, body, [*state, *closed])
    (again,) = use.inlined(inner, condition, [*state, *closed])
    inner.output(again, Aval((), DType.bool))
    for i, name in zip(body.outputs, state, strict=True):
        inner.output(name, body.values[i].aval)
    return use.graph.add("Loop", ["", begins, *use.inputs[:carries]], carries, body=inner)


def _cond(use: Use) -> Sequence[str]:
    branches = {}
    for theirs, ours in (("then_branch", "then"), ("else_branch", "otherwise")):
        inner, body = use.graph.inner(), use.params[ours]
        for i, name in zip(body.outputs, use.inlined(inner, body, use.inputs[1:]), strict=True):
            inner.output(name, body.values[i].aval)
        branches[theirs] = inner
    return use.graph.add("If", use.inputs[:1], len(use.node.outputs), **branches)


ROWS: Mapping[str, Row] = {"scan": _scan, "while_loop": _while_loop, "cond": _cond}
