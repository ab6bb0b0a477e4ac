"""Heat that spreads over a plate: many steps of the five-point stencil on the inner points.

    u_ij += r (u_(i-1)j + u_(i+1)j + u_i(j-1) + u_i(j+1) - 4 u_ij)

Source: Press, Teukolsky, Vetterling and Flannery, Numerical Recipes (3rd edition, 2007), section 20.2 (forward time
centred space), stable for r up to 1/4. The edge keeps its temperature. Size 16 is dispatch, 1024 (8 MiB in float64)
memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

RATE = 0.2


@xb.workload(sweep={"size": [16, 256, 1024]}, quick={"size": [256]})
def stencil(u: Any, *, steps: int = 50) -> Any:
    """The temperatures after the steps, from an array of shape (size, size)."""

    def step(u: Any, _: Any) -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return xb.at(u)[1:-1, 1:-1].add(RATE * (around - 4.0 * u[1:-1, 1:-1])), None

    return xb.scan(step, u, length=steps)[0]


@stencil.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float64") -> np.ndarray:
    """Temperatures from 0 to 1."""
    return rng.random((size, size)).astype(dtype)


check_drawn(stencil, lambda n: n * n, steps=(1, 10_000))
