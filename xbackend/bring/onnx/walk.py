"""A program as a graph of ONNX: node by node, each by the row of its op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xbackend.bring.missing import Missing
from xbackend.bring.onnx import elementwise, loops, moves, quotients, reductions
from xbackend.bring.onnx.elementwise import Row
from xbackend.bring.onnx.graph import Graph, Model, Use
from xbackend.bring.source import names as naming
from xbackend.bring.source.dialect import named_by
from xbackend.errors import UnsupportedOperation
from xbackend.program.dtypes import DType
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program, generate

ROWS: Mapping[str, Row] = {**elementwise.ROWS, **quotients.ROWS, **reductions.ROWS, **moves.ROWS, **loops.ROWS}
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
    """Why no file has an op; empty where it has."""
    if op in ROWS or op in GENERATORS or op in ("input", "shared"):
        return ""
    return _INSTEAD.get(op, "it has no row yet")


def check(program: Program) -> None:
    """Raises `UnsupportedOperation`, which names all ops without a row, and for constants that no file holds."""
    missing, todo = Missing("ONNX"), [program]
    while todo:
        for node in todo.pop().nodes:
            todo += node.bodies.values()
            if said := refusal(node.op):
                missing.add(node.op, node.source, said)
    if missing.found:
        raise UnsupportedOperation(f"{program.name} has ops that ONNX lacks:{missing.lines()}")


def graph_of(program: Program) -> Graph:
    """The program's graph. Inputs have their names, and so have shared variables, which are inputs with their first
    values as defaults. Results are named by the keys of dictionaries around them, else ``output_0`` and so on; the new
    values of shared variables follow, as ``new_NAME``. Raises as `check`."""
    check(program)
    graph = Graph(Model())
    values: dict[int, str] = {}
    for i in program.inputs:
        values[i] = graph.input(program.values[i].params["name"], program.values[i].aval)
    for i, variable in program.shared.items():
        values[i] = graph.input(variable.name, program.values[i].aval)
        graph.defaults[values[i]] = variable.value
    keys = named_by(program.structure, range(len(program.outputs)))
    results = [(i, keys.get(k, f"output_{k}")) for k, i in enumerate(program.outputs)]
    results += [(new, f"new_{program.shared[i].name}") for i, new in program.updates.items()]
    claimed = [(i, graph.model.name(name)) for i, name in results]
    _write(graph, program, values, dict(reversed(claimed)))
    for i, name in claimed:
        graph.output(values[i], program.values[i].aval, name)
    size = sum(value.nbytes for value in (*graph.model.constants.values(), *graph.defaults.values()))
    if size > LIMIT:
        raise UnsupportedOperation(
            f"{program.name} has {size / 2**30:.1f} GiB of constants, and a file of ONNX holds 2: make them inputs"
        )
    return graph


def _inlined(graph: Graph, body: Program, given: Sequence[str]) -> list[str]:
    """Write a body into a graph; returns the names of its results."""
    values = dict(zip(body.inputs, given, strict=True))
    _write(graph, body, values, {})
    return [values[i] for i in body.outputs]


def _write(graph: Graph, program: Program, values: dict[int, str], claimed: Mapping[int, str]) -> None:
    """Write the nodes of a program. ``values`` has the names of inputs, and gets those of all results. A name is the
    claimed one, that of the user's line, or that of the operator."""
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


def _made(graph: Graph, program: Program, node: Node, inputs: Sequence[str]) -> Sequence[str]:
    """The names of a node's results."""
    if node.op in GENERATORS:
        return [_generated(graph, node)]
    if not any(aval.size for aval in node.results):  # nothing is computed, whatever the operator makes of no elements
        return [graph.constant(np.zeros(shape, dtype.value)) for shape, dtype in node.results]
    made = ROWS[node.op](Use(graph, program, node, inputs, _inlined))
    return [made] if isinstance(made, str) else made


def _generated(graph: Graph, node: Node) -> str:
    """A constant of the file, or a large array that is made of few numbers."""
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
