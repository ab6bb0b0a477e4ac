"""Logistic regression: the log posterior density of coefficients, and its gradient.

    log p(b | y, X) = sum_i (y_i eta_i - log(1 + exp(eta_i))) - |b|^2 / (2 s^2),  eta = X b

Source: Gelman and Hill, Data Analysis Using Regression and Multilevel/Hierarchical Models (2007), section 5.1. Here
log(1 + exp(eta)) is max(eta, 0) + log(1 + exp(-|eta|)), which does not overflow. Size 100 is dispatch, 200 000 rows (32
MB in float64) memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

COLUMNS, SCALE = 20, 2.5


@xb.workload(sweep={"size": [100, 10_000, 200_000]}, quick={"size": [10_000]}, gradient="coefficients")
def logistic_regression(coefficients: Any, x: Any, y: Any) -> Any:
    """A scalar, from coefficients (20,), rows (size, 20) and answers (size,), which are 0 or 1."""
    eta = x @ coefficients
    likelihood = xb.sum(y * eta - xb.maximum(eta, 0.0) - xb.log1p(xb.exp(-xb.abs(eta))))
    return likelihood - xb.sum(xb.square(coefficients)) / (2.0 * SCALE**2)


@logistic_regression.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float64") -> list[np.ndarray]:
    """Coefficients close to the true ones, rows and answers."""
    true, x = rng.standard_normal(COLUMNS) / 2, rng.standard_normal((size, COLUMNS))
    y = rng.random(size) < 1.0 / (1.0 + np.exp(-x @ true))
    return [array.astype(dtype) for array in (true + 0.1 * rng.standard_normal(COLUMNS), x, y)]


check_drawn(logistic_regression, lambda n: n * (COLUMNS + 1))
