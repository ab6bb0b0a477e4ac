"""A function that Numba compiles for xbackend, in a module that will be gone; runs inside the worker."""

from __future__ import annotations

from typing import Any

import numpy as np


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.zeros((x.shape[0], y.shape[1]), x.dtype) + len(x[0])


def compile_with(backend: Any) -> list[Any]:
    """The product of two matrices of ones, compiled with the function of this module."""
    from xbackend.api.tracing.trace import trace
    from xbackend.backends.lineage import host_modes

    mode = getattr(backend, "mode", backend)
    mode.replace(backend.module("tensor.math").Dot, host_modes.multiplies_integers, lambda node: product)
    ones = np.ones((2, 2), np.int64)
    result: list[Any] = backend.compile(trace(lambda a, b: a @ b, ones, ones))(ones, ones).tolist()
    return result


def compiled_folder(backend: Any) -> str:
    return str(backend.compiled_folder())
