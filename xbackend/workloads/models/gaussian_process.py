"""A Gaussian process: the logarithm of the marginal likelihood, by Cholesky's factor, and its gradient.

    log p(y | x) = -|L^-1 y|^2 / 2 - sum_i log L_ii - n log(2 pi) / 2,  L L^T = K + s_n^2 I
    K_ij = s_f^2 exp(-(x_i - x_j)^2 / (2 l^2))

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), algorithm 2.1, equations 2.30 and 2.31.
Size 16 is dispatch, 1024 arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn


@xb.workload(sweep={"size": [16, 256, 1024]}, quick={"size": [256]}, gradient="log_parameters")
def gaussian_process(log_parameters: Any, x: Any, y: Any) -> Any:
    """A scalar, from the logarithms of l, s_f and s_n (3,), places (size,) and observations (size,)."""
    length, scale, noise = (xb.exp(log_parameters[i]) for i in range(3))
    n = y.shape[0]
    apart = (x[:, None] - x[None, :]) / length
    covariance = xb.square(scale) * xb.exp(-0.5 * xb.square(apart)) + xb.square(noise) * xb.eye(n, dtype=x.dtype)
    factor = xb.linalg.cholesky(covariance)
    white = xb.linalg.solve_triangular(factor, y[:, None], lower=True)
    logarithms = xb.sum(xb.log(xb.linalg.diagonal(factor)))
    return -0.5 * xb.sum(xb.square(white)) - logarithms - 0.5 * n * math.log(2.0 * math.pi)


@gaussian_process.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float64") -> list[np.ndarray]:
    """A sine with noise, at places from 0 to 10."""
    x = np.sort(rng.uniform(0.0, 10.0, size))
    y = np.sin(x) + 0.3 * rng.standard_normal(size)
    return [array.astype(dtype) for array in (np.log([1.2, 0.9, 0.35]), x, y)]


check_drawn(gaussian_process, lambda n: 3 * n * n)
