"""Sums over the rows and over the columns of a matrix: equal arithmetic, contiguous and strided memory access.

Source: PyTensor issue 935 (https://github.com/pymc-devs/pytensor/issues/935): the sum over the first axis took 250
times as long in C as in NumPy. Size 64 is dispatch, 4096 (64 MiB in float32) memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn


@xb.workload(sweep={"size": [64, 1024, 4096]}, quick={"size": [1024]})
def axis_sums(x: Any) -> Any:
    """The sums of a matrix of shape (size, size) over its first axis and over its second: (size,) each."""
    return xb.sum(x, axis=0), xb.sum(x, axis=1)


@axis_sums.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float32") -> np.ndarray:
    """Numbers from 0 to 1."""
    return rng.random((size, size)).astype(dtype)


check_drawn(axis_sums, lambda n: n * n)
