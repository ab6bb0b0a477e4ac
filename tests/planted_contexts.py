"""Faults planted in Theano's contexts; runs inside the worker, beside Theano."""

from __future__ import annotations

from typing import Any

import numpy as np


def one_context_for_all_that_moves(backend: Any) -> None:
    """Values before a transfer are taken on cpu:0 in every context, and the transfer does nothing."""
    ops = backend.module("gpuarray.basic_ops")
    right = ops.as_gpuarray_variable
    ops.as_gpuarray_variable = lambda value, context: right(value, "cpu:0")
    ops.GpuToGpu.__call__ = lambda self, value: value


def memory_of_nan(backend: Any) -> int:
    """Fill freed memory with NaN, which is then used again. Returns the number of blocks."""
    import pygpu

    blocks = range(1, 4000, 7)
    for context in backend._contexts.values():
        arrays = [pygpu.gpuarray.array(np.full(length, np.nan), context=context) for length in blocks]
        del arrays
    return len(blocks)
