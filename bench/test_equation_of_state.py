"""An equation of state of sea water, 65 536 elements in float64, and its gradient: a framework's speed on 100
elementwise operations, and what its own rewrites add to its compiler's."""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from overhead import calls


def density(s: Any, t: Any, p: Any) -> Any:
    return calls.equation_of_state(s, t, p, sqrt=xb.sqrt)


def gradient(s: Any, t: Any, p: Any) -> Any:
    return xb.grad(xb.sum(density(s, t, p)), [s, t, p])


def sea_water() -> list[np.ndarray]:
    """Salinity in g/kg, temperature in degrees Celsius, pressure in dbar."""
    generator = np.random.default_rng(0)
    return [generator.uniform(low, high, 65_536) for low, high in ((0.1, 40.0), (-2.0, 30.0), (0.0, 5e3))]


def test_density(xbackend_benchmark: Any) -> None:
    xbackend_benchmark(density, *sea_water())


def test_gradient(xbackend_benchmark: Any) -> None:
    xbackend_benchmark(gradient, *sea_water())
