"""Many small multivariate normal densities at once, each with its own covariance: a stack of Cholesky's factors.

    log p_i = -|L_i^-1 (x_i - m)|^2 / 2 - sum_k log L_ikk - d log(2 pi) / 2,  L_i L_i^T = diag(s) R_i diag(s)

Source: Gelman et al., Bayesian Data Analysis (3rd edition, 2013), appendix A. Separate scales and correlations:
Barnard, McCulloch and Meng, Statistica Sinica 10 (2000) 1281. d is 8. Size 10 is dispatch, 10 000 memory and
arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

WIDTH = 8


@xb.workload(sweep={"size": [10, 1000, 10_000]}, quick={"size": [1000]}, gradient=("mean", "log_scale"))
def multivariate_normal(mean: Any, log_scale: Any, correlation: Any, x: Any) -> Any:
    """The sum of all, from a mean and log scales (8,), correlations (size, 8, 8) and points (size, 8)."""
    scale = xb.exp(log_scale)
    factor = xb.linalg.cholesky(correlation * scale[:, None] * scale[None, :])
    white = xb.linalg.solve_triangular(factor, (x - mean)[:, :, None], lower=True)
    logarithms = xb.sum(xb.log(xb.linalg.diagonal(factor)))
    return -0.5 * xb.sum(xb.square(white)) - logarithms - 0.5 * WIDTH * math.log(2.0 * math.pi) * x.shape[0]


@multivariate_normal.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float64") -> list[np.ndarray]:
    """Correlations from 16 normal numbers each."""
    loadings = rng.standard_normal((size, WIDTH, 2 * WIDTH))
    covariance = loadings @ loadings.transpose(0, 2, 1)
    deviation = np.sqrt(np.einsum("iaa->ia", covariance))
    correlation = covariance / (deviation[:, :, None] * deviation[:, None, :])
    given = [rng.standard_normal(WIDTH), 0.2 * rng.standard_normal(WIDTH), correlation]
    return [array.astype(dtype) for array in (*given, rng.standard_normal((size, WIDTH)))]


check_drawn(multivariate_normal, lambda n: 4 * n * WIDTH * WIDTH)
