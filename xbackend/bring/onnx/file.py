"""A graph of ONNX as a file. It needs the package `onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xbackend.bring.onnx.graph import OnnxGraph
from xbackend.bring.onnx.walk import graph_of
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.program import Program


def write(program: Program, path: Path) -> None:
    """Write a program as a file that `onnx.checker` has checked. Raises what `graph_of` raises."""
    path.write_bytes(model_of(program).SerializeToString())


def model_of(program: Program) -> Any:
    """The program as an `onnx.ModelProto`, checked with the shapes and dtypes of all values."""
    import onnx
    from onnx import helper

    graph = graph_of(program)
    opsets = [helper.make_opsetid("", graph.model.opset)]
    made = helper.make_model(
        _proto(graph, program.name, graph.model.constants),
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets),
        producer_name="xbackend",
        doc_string=f"The program {program.fingerprint[:12]}, written by xbackend.",
    )
    onnx.checker.check_model(made, full_check=True)
    return made


def _proto(graph: OnnxGraph, name: str, constants: dict[str, np.ndarray]) -> Any:
    from onnx import helper, numpy_helper

    nodes = []
    for node in graph.nodes:
        attributes = {key: _attribute(value, f"{name}_{key}") for key, value in node.attributes.items()}
        nodes.append(helper.make_node(node.op, node.inputs, node.outputs, **attributes))
    initial = [numpy_helper.from_array(value, one) for one, value in {**constants, **graph.defaults}.items()]
    inputs, outputs = ([_declared(*one) for one in some] for some in (graph.inputs, graph.outputs))
    return helper.make_graph(nodes, name, inputs, outputs, initial)


def _attribute(value: Any, name: str) -> Any:
    from onnx import helper

    if isinstance(value, OnnxGraph):
        return _proto(value, name, {})
    return helper.np_dtype_to_tensor_dtype(np.dtype(value.value)) if isinstance(value, DType) else value


def _declared(name: str, aval: Aval) -> Any:
    from onnx import helper

    element = helper.np_dtype_to_tensor_dtype(np.dtype(aval.dtype.value))
    return helper.make_tensor_value_info(name, element, aval.shape)
