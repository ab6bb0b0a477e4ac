"""Bodies that attract each other, by all pairs, over some leapfrog steps.

    a_i = sum_j m_j (x_j - x_i) / (|x_j - x_i|^2 + e^2)^(3/2)

Source: Nyland, Harris and Prins, Fast N-Body Simulation with CUDA, GPU Gems 3 (2007), chapter 31, equation 3, with G =
1; the steps: Verlet, Physical Review 159 (1967) 98, in the form with velocities (kick, drift, kick). Size 8 is
dispatch, 1024 bodies (24 MiB for each array of pairs) memory and arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

SOFTENING, STEP = 0.1, 0.01


@xb.workload(sweep={"size": [8, 128, 1024]}, quick={"size": [128]})
def nbody(position: Any, velocity: Any, mass: Any, *, steps: int = 4) -> Any:
    """Positions and velocities after the steps, each of shape (size, 3), from such arrays and masses (size,)."""
    acceleration = _acceleration(position, mass)
    for _ in range(steps):
        velocity = velocity + 0.5 * STEP * acceleration
        position = position + STEP * velocity
        acceleration = _acceleration(position, mass)
        velocity = velocity + 0.5 * STEP * acceleration
    return position, velocity


def _acceleration(position: Any, mass: Any) -> Any:
    apart = position[None, :, :] - position[:, None, :]
    squared = xb.sum(apart * apart, axis=2) + SOFTENING**2
    pull = mass[None, :] / (squared * xb.sqrt(squared))
    return xb.sum(pull[:, :, None] * apart, axis=1)


@nbody.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float64") -> list[np.ndarray]:
    """Standard normal positions, velocities a tenth of that, masses with the sum 1."""
    position, velocity = rng.standard_normal((size, 3)), 0.1 * rng.standard_normal((size, 3))
    mass = rng.uniform(0.5, 1.5, size)
    return [array.astype(dtype) for array in (position, velocity, mass / mass.sum())]


check_drawn(nbody, lambda n: 3 * n * n, steps=(1, 1000))
