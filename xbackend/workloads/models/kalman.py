"""A Kalman filter: the log likelihood of noisy observations of places, and its gradient.

    m' = A m,  P' = A P A^T + q Q,  v = y - H m',  S = H P' H^T + r I,  K = P' H^T S^-1
    m = m' + K v,  P = P' - K S K^T,  log p(y_t | y_1..t-1) = -(v^T S^-1 v + log |S| + 2 log(2 pi)) / 2

Source: Sarkka, Bayesian Filtering and Smoothing (2013), theorem 4.2 and, for the likelihood, theorem 12.1; the model
(place and speed in a plane) is its example 4.3. Size is steps: 50 and 500, each of products of 4 x 4 matrices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

MOVES = np.eye(4) + np.eye(4, k=2)
SEES = np.eye(2, 4)
JOLTS = np.kron([[1 / 3, 1 / 2], [1 / 2, 1.0]], np.eye(2))


@xb.workload(sweep={"size": [50, 500]}, quick={"size": [50]}, gradient="log_noise")
def kalman(log_noise: Any, mean: Any, covariance: Any, y: Any) -> Any:
    """A scalar, from the logarithms of q and r (2,), the first mean (4,) and covariance (4, 4), places (size, 2)."""
    moves, sees, jolts = (xb.asarray(matrix, dtype=y.dtype) for matrix in (MOVES, SEES, JOLTS))
    noise = xb.exp(log_noise)
    jolt, blur = noise[0] * jolts, noise[1] * xb.eye(2, dtype=y.dtype)

    def step(belief: Any, seen: Any) -> Any:
        m, p = belief
        m, p = moves @ m, moves @ p @ xb.matrix_transpose(moves) + jolt
        miss = seen - sees @ m
        across = sees @ p
        spread = across @ xb.matrix_transpose(sees) + blur
        solved = xb.linalg.solve(spread, xb.concat([across, miss[:, None]], axis=1))
        gain = xb.matrix_transpose(solved[:, :4])
        density = xb.sum(miss * solved[:, 4]) + xb.linalg.slogdet(spread)[1] + 2.0 * math.log(2.0 * math.pi)
        return (m + gain @ miss, p - gain @ across), -0.5 * density

    _, each = xb.scan(step, (mean, covariance), y)
    return xb.sum(each)


@kalman.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float64") -> list[np.ndarray]:
    """Places drawn from the model, and noises close to the true ones."""
    jolt, state, seen = np.linalg.cholesky(0.1 * JOLTS), np.zeros(4), []
    for _ in range(size):
        state = MOVES @ state + jolt @ rng.standard_normal(4)
        seen.append(SEES @ state + math.sqrt(0.5) * rng.standard_normal(2))
    return [array.astype(dtype) for array in (np.log([0.12, 0.4]), np.zeros(4), np.eye(4), np.array(seen))]


check_drawn(kalman, lambda n: 2 * n)
