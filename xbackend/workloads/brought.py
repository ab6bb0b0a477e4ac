"""A graph that was brought, as a workload."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from xbackend.bring.origin import Origin
from xbackend.program.program import Program
from xbackend.workloads.agreement import relative_error
from xbackend.workloads.workload import Workload

CLOSE = {"float64": 1e-8, "float32": 1e-4}  # relative errors up to which results are the framework's own


def workload_of(origin: Origin, name: str) -> Workload:
    """The workload of a graph's program, with its own gradient on each backend."""
    names = [origin.program.values[i].params["name"] for i in origin.program.inputs]

    def function(*arrays: Any) -> Any:
        return origin.program(*arrays)

    parameters = [inspect.Parameter(one, inspect.Parameter.POSITIONAL_OR_KEYWORD) for one in names]
    function.__name__ = name
    function.__dict__["__signature__"] = inspect.Signature(parameters)
    return Workload(function, name=name, gradient=tuple(origin.gradient))


def apart(origin: Origin, expected: list[np.ndarray], program: Program) -> str:
    """How far expected results are from the framework's own; empty where they are the same within `CLOSE`."""
    own = [*origin.results, *origin.slopes]
    pairs = list(zip(expected, own[: len(expected)], strict=False))
    error = max((relative_error(found, right) for found, right in pairs), default=0.0)
    dtypes = [program.values[i].dtype.value for i in program.outputs]
    close = max(CLOSE.get(dtype, 0.0) for dtype in dtypes)
    return "" if error <= close else f"{error:.1e} (relative) from what {origin.facts['graph']} computes itself"
