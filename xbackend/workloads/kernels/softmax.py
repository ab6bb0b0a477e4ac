"""Softmax of the rows of a matrix: exponentials between two reductions.

Source: Goodfellow, Bengio and Courville, Deep Learning (2016), equation 4.1. The largest element of a row is subtracted
first, as in section 4.1. Size 4 is dispatch, 32 768 rows (64 MiB in float32) are memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

COLUMNS = 512


@xb.workload(sweep={"size": [4, 2048, 32_768]}, quick={"size": [2048]})
def softmax(x: Any) -> Any:
    """exp(x_ij) / sum_k exp(x_ik) of an array of shape (size, 512), the same shape."""
    e = xb.exp(x - xb.max(x, axis=1, keepdims=True))
    return e / xb.sum(e, axis=1, keepdims=True)


@softmax.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float32") -> np.ndarray:
    """Normal numbers of standard deviation 3."""
    return (3.0 * rng.standard_normal((size, COLUMNS))).astype(dtype)


check_drawn(softmax, lambda n: n * COLUMNS)
