"""Attention of several heads: two products of matrices around a softmax.

    softmax(Q K^T / sqrt(d)) V

Source: Vaswani et al., Attention Is All You Need (2017), equation 1 (https://arxiv.org/abs/1706.03762), 8 heads of 64
numbers, as in its table 3. Size 16 is dispatch, 1024 (32 MiB of scores in float32) memory and arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

HEADS, WIDTH = 8, 64


@xb.workload(sweep={"size": [16, 256, 1024]}, quick={"size": [256]})
def attention(query: Any, key: Any, value: Any) -> Any:
    """The attention of each position: an array of shape (8, size, 64), from three of that shape."""
    scores = (query @ xb.matrix_transpose(key)) * (1.0 / math.sqrt(WIDTH))
    weights = xb.exp(scores - xb.max(scores, axis=2, keepdims=True))
    return (weights / xb.sum(weights, axis=2, keepdims=True)) @ value


@attention.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float32") -> list[np.ndarray]:
    """Standard normal numbers."""
    return [rng.standard_normal((HEADS, size, WIDTH)).astype(dtype) for _ in range(3)]


check_drawn(attention, lambda n: HEADS * n * (3 * WIDTH + n))
