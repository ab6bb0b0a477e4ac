"""Stages that compute the same, whatever their devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from xbackend.backends.lineage.shapes import lengths
from xbackend.backends.staged.graph import toposort
from xbackend.program.stages import Stage, Variable


def computation(stage: Stage) -> tuple[Any, ...]:
    """A key of a stage: its ops in their order, with their types, static shapes and constants. Stages with equal keys
    compute the same from inputs in the same order."""
    numbers: dict[Variable, Any] = {variable: k for k, variable in enumerate(stage.inputs)}

    def number(variable: Variable) -> Any:
        if variable not in numbers:
            data = variable.data  # a constant: of zeros only the bytes tell the sign
            exact = data.tobytes() if isinstance(data, np.ndarray) else variable.signature()
            numbers[variable] = (variable.type, exact)
        return numbers[variable]

    nodes: list[tuple[Any, ...]] = []
    for node in toposort(stage.outputs, stage.inputs):
        types = tuple((v.type, lengths(v) if hasattr(v.type, "ndim") else ()) for v in node.outputs)
        nodes.append((node.op, tuple(map(number, node.inputs)), types))
        numbers |= {v: (len(nodes), k) for k, v in enumerate(node.outputs)}
    inputs = tuple((v.type, lengths(v)) for v in stage.inputs)
    return inputs, tuple(nodes), tuple(map(number, stage.outputs))
