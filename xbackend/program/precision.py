"""A program in float64 on one device, and so that each result is rounded to the dtype that it has in the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from xbackend.program.dtypes import DType
from xbackend.program.program import Node, Program
from xbackend.program.shared import SharedVariable

NARROW, WIDE = DType.float32, DType.float64
_DEVICE = "cpu:0"


def widened(program: Program, rounded: bool = False) -> Program:
    """The program with float64 in the place of float32, in its constants, shared variables and bodies too, and with one
    device in the place of all.

    ``rounded``: what was float32 is rounded to it after each op, and goes on as float64. So it computes what float32
    does where each op is exact but for one rounding of its result.
    """
    nodes, at = list[Node](), list[int]()  # at[i]: where the value of node i is
    for node in program.nodes:
        inputs, device = tuple(at[i] for i in node.inputs), node.device and _DEVICE
        params = _wide(node.params, rounded)
        nodes.append(replace(node, inputs=inputs, params=params, dtype=_of(node.dtype), device=device))
        if rounded and node.inputs and node.dtype is NARROW:
            for dtype in (NARROW, WIDE):
                before = len(nodes) - 1
                nodes.append(
                    replace(nodes[before], op="astype", inputs=(before,), params={"dtype": dtype}, dtype=dtype)
                )
        at.append(len(nodes) - 1)
    return replace(
        program,
        nodes=tuple(nodes),
        inputs=tuple(at[i] for i in program.inputs),
        outputs=tuple(at[i] for i in program.outputs),
        shared={at[i]: _variable(variable) for i, variable in program.shared.items()},
        updates={at[i]: at[j] for i, j in program.updates.items()},
    )


def _of(dtype: DType) -> DType:
    return WIDE if dtype is NARROW else dtype


def _wide(params: Mapping[str, Any], rounded: bool) -> dict[str, Any]:
    found = dict(params)
    for name, value in params.items():
        if name == "dtype":
            found[name] = _of(DType(value))
        elif isinstance(value, Program):
            found[name] = widened(value, rounded)
        elif isinstance(value, np.ndarray) and value.dtype == np.float32:
            found[name] = value.astype(np.float64)
    return found


def _variable(variable: SharedVariable) -> SharedVariable:
    value = variable.value.astype(np.float64) if variable.dtype is NARROW else variable.value
    return SharedVariable(value, variable.name)
