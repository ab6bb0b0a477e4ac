"""A program in float64 on one device, with or without rounding each result to its dtype in the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xbackend.program.dtypes import DType
from xbackend.program.program import Nodes, Program
from xbackend.program.shared import SharedVariable

NARROW, WIDE = DType.float32, DType.float64
_DEVICE = "cpu:0"


def widened(program: Program, rounded: bool = False) -> Program:
    """The program on one device, with float64 in place of float32, in constants, shared variables and bodies too.

    ``rounded``: each result that was float32 is rounded to it and cast back to float64. This is float32 arithmetic
    whose ops are exact but for one rounding of the result.
    """
    written, at = Nodes(), list[int]()  # at[i]: the new number of value i
    for node in program.nodes:
        inputs, device, source = [at[i] for i in node.inputs], node.device and _DEVICE, node.source
        results = [aval._replace(dtype=_of(aval.dtype)) for aval in node.results]
        outputs = written.add(node.op, inputs, _wide(node.params, rounded), results, device=device, source=source)
        for i, aval in zip(outputs, node.results, strict=True):
            if rounded and node.inputs and aval.dtype is NARROW:
                (narrow,) = written.add("astype", (i,), {"dtype": NARROW}, (aval,), device=device, source=source)
                wide = aval._replace(dtype=WIDE)
                (i,) = written.add("astype", (narrow,), {"dtype": WIDE}, (wide,), device=device, source=source)
            at.append(i)
    takes, gives = ([at[i] for i in numbers] for numbers in (program.inputs, program.outputs))
    shared = {at[i]: _variable(variable) for i, variable in program.shared.items()}
    updates = {at[i]: at[j] for i, j in program.updates.items()}
    return written.program(program.name, takes, gives, program.structure, shared, updates)


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
