"""Programs whose devices compute alike, or alike but for a constant; runs inside the worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xbackend as xb

X = np.array([2.0, -3.0])


def results(backend: Any, constants: Sequence[float]) -> list[list[float]]:
    """``1 / (tanh(x) * constant)`` with a constant for each device."""
    return [each.tolist() for each in _run(backend, constants)(*([X] * len(constants)))]


def compilations(backend: Any, constants: Sequence[float]) -> int:
    """How often Numba compiles the program of `results`."""
    before = backend.compilations()["numba"]
    _run(backend, constants)
    return int(backend.compilations()["numba"] - before)


def _run(backend: Any, constants: Sequence[float]) -> Any:
    def function(*each: Any) -> list[Any]:
        made = []
        for number, (x, constant) in enumerate(zip(each, constants, strict=True)):
            with xb.device(f"cpu:{number}"):
                made.append(1.0 / (xb.tanh(xb.to_device(x, f"cpu:{number}")) * constant))
        return made

    return backend.compile(xb.trace(function, *([X] * len(constants))))
