"""Radon in houses: a hierarchical regression, whose intercepts and slopes by county have a distribution themselves.

    y_i ~ Normal(a_c(i) + b_c(i) floor_i, s),  a_c = m_a + t_a u_c,  b_c = m_b + t_b v_c,  u_c, v_c ~ Normal(0, 1)
    m ~ Normal(0, 10),  t_a, t_b, s ~ half Normal(1), as logarithms

Source: Gelman and Hill, Data Analysis Using Regression and Multilevel/Hierarchical Models (2007), chapters 12 and 13,
85 counties; the form with u and v: Betancourt and Girolami, Hamiltonian Monte Carlo for Hierarchical Models (2013,
https://arxiv.org/abs/1312.0906). Constants are left out. Size 919 is theirs, and dispatch; 1 000 000 houses are memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

COUNTIES = 85


@xb.workload(
    sweep={"size": [919, 50_000, 1_000_000]},
    quick={"size": [50_000]},
    gradient=("centre", "log_scale", "intercept", "slope"),
)
def radon(  # noqa: PLR0917 (an argument is an array)
    centre: Any, log_scale: Any, intercept: Any, slope: Any, county: Any, floor: Any, y: Any
) -> Any:
    """A scalar, from m (2,), the logarithms of t_a, t_b and s (3,), u and v (85,), and each house's county, floor and
    log radon (size,)."""
    scale = xb.exp(log_scale)
    a = centre[0] + scale[0] * intercept
    b = centre[1] + scale[1] * slope
    residual = (y - xb.take(a, county) - xb.take(b, county) * floor) / scale[2]
    likelihood = -0.5 * xb.sum(xb.square(residual)) - float(y.shape[0]) * log_scale[2]
    raw = xb.sum(xb.square(intercept)) + xb.sum(xb.square(slope)) + xb.sum(xb.square(centre)) / 100.0
    return likelihood - 0.5 * (raw + xb.sum(xb.square(scale))) + xb.sum(log_scale)


@radon.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float64") -> list[np.ndarray]:
    """Houses drawn from the model, and parameters close to the true ones."""
    centre, log_scale = np.array([1.5, -0.7]), np.log([0.3, 0.3, 0.7])
    raw = rng.standard_normal((2, COUNTIES))
    a, b = centre[:, None] + np.exp(log_scale[:2, None]) * raw
    county, floor = rng.integers(0, COUNTIES, size), (rng.random(size) < 0.2).astype(float)
    y = a[county] + b[county] * floor + np.exp(log_scale[2]) * rng.standard_normal(size)
    drawn = [centre, log_scale, *raw]
    parameters = [array + 0.1 * rng.standard_normal(array.shape) for array in drawn]
    return [*(array.astype(dtype) for array in parameters), county, floor.astype(dtype), y.astype(dtype)]


check_drawn(radon, lambda n: 4 * n)
