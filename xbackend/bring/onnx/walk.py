"""A program as a graph of ONNX: node by node, each by the row of its op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xbackend.bring.missing import Missing
from xbackend.bring.onnx import elementwise, moves, quotients, reductions
from xbackend.bring.onnx.elementwise import OnnxRow
from xbackend.bring.onnx.graph import FRONT, OnnxGraph, OnnxModel, OnnxUse
from xbackend.bring.source import names as naming
from xbackend.bring.source.dialect import result_names
from xbackend.errors import UnsupportedOperation
from xbackend.program.analyses import everywhere
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program, generate

LARGE = 64  # elements of the largest generated array that is a constant in the file
LIMIT = 2**31 - 2**24  # bytes of constants: a file has less than 2 GiB

_SPECIAL = "ONNX has no such function"
_MATRICES = "ONNX has no linear algebra but products and determinants"
_INSTEAD = {
    "grad": "ONNX has no gradients: give the value alone",
    "all_reduce": "a file of ONNX has no devices",
    "transfer": "a file of ONNX has no devices",
    **dict.fromkeys(("erfc", "erfinv", "gammaln", "digamma"), _SPECIAL),
    **dict.fromkeys(("cholesky", "inv", "slogdet", "solve", "solve_triangular"), _MATRICES),
    **dict.fromkeys(("eigh", "eigvalsh", "svdvals", "qr", "svd"), _MATRICES),
}


def refusal(op: str) -> str:
    """Why files lack an op; empty if they have it."""
    if op in ROWS or op in GENERATORS or op in ("input", "shared"):
        return ""
    return _INSTEAD.get(op, "it has no row yet")


def graph_of(program: Program) -> OnnxGraph:
    """The program's graph. Inputs keep their names. Shared variables are inputs, too, with their first values as
    defaults. Results are named by the keys of dictionaries around them, else ``output_0`` and so on. The new values of
    shared variables follow, as ``new_NAME``. A name that is taken gets a number.

    Raises `UnsupportedOperation` for ops without a row, all of them in one error, and for constants that are too large
    for a file."""
    missing = Missing("ONNX")
    for node in everywhere(program):
        if said := refusal(node.op):
            missing.add(node.op, node.source, said)
    if missing.found:
        raise UnsupportedOperation(f"{program.name} has ops that ONNX lacks:{missing.lines()}")
    graph = OnnxGraph(OnnxModel())
    values: dict[int, str] = {}
    for i in program.inputs:
        values[i] = graph.input(program.values[i].params["name"], program.values[i].aval)
    for i, variable in program.shared.items():
        values[i] = graph.input(variable.name, program.values[i].aval)
        graph.defaults[values[i]] = variable.value
    claimed = list(zip(program.outputs, result_names(program, graph.model.taken), strict=True))
    claimed += [(new, graph.model.name(f"new_{program.shared[i].name}")) for i, new in program.updates.items()]
    _write(graph, program, values, dict(reversed(claimed)))
    for i, name in claimed:
        graph.output(values[i], program.values[i].aval, name)
    size = sum(value.nbytes for value in (*graph.model.constants.values(), *graph.defaults.values()))
    if size > LIMIT:
        raise UnsupportedOperation(
            f"{program.name} has {size / 2**30:.1f} GiB of constants, and a file of ONNX holds 2: make them inputs"
        )
    return graph


def _inlined(graph: OnnxGraph, body: Program, given: Sequence[str]) -> list[str]:
    """Write a body into a graph; returns the names of its results."""
    values = dict(zip(body.inputs, given, strict=True))
    _write(graph, body, values, {})
    return [values[i] for i in body.outputs]


def _body(graph: OnnxGraph, body: Program, given: Sequence[str]) -> OnnxGraph:
    """Write a body into a graph of its own, with the body's results as the graph's."""
    for i, name in zip(body.outputs, _inlined(graph, body, given), strict=True):
        graph.output(name, body.values[i].aval)
    return graph


def _write(graph: OnnxGraph, program: Program, values: dict[int, str], claimed: Mapping[int, str]) -> None:
    """Write the nodes of a program. ``values`` has the names of its inputs, and gets those of all results: the claimed
    name, the name in the user's line, or the operator's."""
    wanted = naming.users(program)
    for node in program.nodes:
        if all(i in values for i in node.outputs):
            continue
        count = len(graph.nodes)
        made = _made(graph, program, node, [values[i] for i in node.inputs])
        for i, name in zip(node.outputs, made, strict=True):
            own = len(graph.nodes) > count and name in graph.nodes[-1].outputs
            new = (claimed.get(i) or (graph.model.name(wanted[i]) if i in wanted else "")) if own else ""
            values[i] = graph.called(name, new) if new else name


def _made(graph: OnnxGraph, program: Program, node: Node, inputs: Sequence[str]) -> Sequence[str]:
    if node.op in GENERATORS:
        return [_generated(graph, node)]
    if not any(aval.size for aval in node.results):  # all are empty: no operator need take arrays without elements
        return [graph.constant(np.zeros(shape, dtype.value)) for shape, dtype in node.results]
    made = ROWS[node.op](OnnxUse(graph, program, node, inputs))
    return [made] if isinstance(made, str) else made


def _scan(use: OnnxUse) -> Sequence[str]:
    """`Scan` needs a sequence: without one it gets an array of booleans. For a reversed loop the sequences are reversed
    before it, and the stacked results after it."""
    params, body = use.params, use.params["body"]
    carries, count = params["carries"], params["carries"] + params["sequences"]
    rows = [_reversed(use, x) if params["reverse"] else x for x in use.inputs[carries:count]]
    inner = OnnxGraph(use.graph.model)
    own = enumerate(body.inputs[:count])
    names = [inner.input("state" if k < carries else "row", body.values[i].aval) for k, i in own]
    if not rows:
        rows = [use.graph.constant(np.zeros(params["length"], bool))]
        inner.input("row", Aval((), DType.bool))
    _body(inner, body, [*names, *use.inputs[count:]])
    operands = [*use.inputs[:carries], *rows]
    made = use.graph.add("Scan", operands, len(use.node.outputs), body=inner, num_scan_inputs=len(rows))
    return [_reversed(use, name) if params["reverse"] and k >= carries else name for k, name in enumerate(made)]


def _reversed(use: OnnxUse, x: str) -> str:
    return use("Slice", x, use.ints(-1), use.ints(FRONT), use.ints(0), use.ints(-1))


def _while_loop(use: OnnxUse) -> Sequence[str]:
    """The condition is computed before the loop, and at the end of each step."""
    params, body, condition = use.params, use.params["body"], use.params["condition"]
    carries = params["carries"]
    (begins,) = _inlined(use.graph, condition, use.inputs)
    inner = OnnxGraph(use.graph.model)
    inner.input("step", Aval((), DType.int64))
    inner.input("goes_on", Aval((), DType.bool))
    state = [inner.input("state", body.values[i].aval) for i in body.inputs[:carries]]
    closed = use.inputs[carries:]
    state = _inlined(inner, body, [*state, *closed])
    (again,) = _inlined(inner, condition, [*state, *closed])
    inner.output(again, Aval((), DType.bool))
    for i, name in zip(body.outputs, state, strict=True):
        inner.output(name, body.values[i].aval)
    return use.graph.add("Loop", ["", begins, *use.inputs[:carries]], carries, body=inner)


def _cond(use: OnnxUse) -> Sequence[str]:
    bodies = (use.params[key] for key in ("then", "otherwise"))
    then, otherwise = (_body(OnnxGraph(use.graph.model), body, use.inputs[1:]) for body in bodies)
    return use.graph.add("If", use.inputs[:1], len(use.node.outputs), then_branch=then, else_branch=otherwise)


def _generated(graph: OnnxGraph, node: Node) -> str:
    """A constant of the file; a large ``full`` or ``arange`` is an operator on few numbers."""
    params, dtype = node.params, node.dtype.value
    if node.op == "constant" or node.aval.size <= LARGE:
        return graph.constant(generate(node))
    if node.op == "full":
        number = graph.constant(np.asarray(params["fill_value"], dtype))
        return graph.add("Expand", [number, graph.constant(np.asarray(node.shape, np.int64))])[0]
    if node.op == "arange" and node.dtype is DType.int64:
        start, step = params["start"], params["step"]
        ends = start, start + node.shape[0] * step, step
        if step and all(isinstance(n, int) and abs(n) < 2**62 for n in ends):
            return graph.add("Range", [graph.constant(np.asarray(n, dtype)) for n in ends])[0]
    return graph.constant(generate(node))


ROWS: Mapping[str, OnnxRow] = {
    **{**elementwise.ROWS, **quotients.ROWS, **reductions.ROWS, **moves.ROWS},
    **{"scan": _scan, "while_loop": _while_loop, "cond": _cond},
}
