"""Prices of European options: a chain of elementwise functions, the error function among them.

    d1 = (log(S / K) + (r + v^2 / 2) T) / (v sqrt(T)),  d2 = d1 - v sqrt(T),  N(x) = (1 + erf(x / sqrt(2))) / 2
    call = S N(d1) - K exp(-r T) N(d2),  put = K exp(-r T) N(-d2) - S N(-d1)

Source: Black and Scholes, The Pricing of Options and Corporate Liabilities, Journal of Political Economy 81 (1973),
equation 13, and the parity of puts and calls. Size 100 is dispatch, 4 000 000 memory and arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

RATE, VOLATILITY = 0.02, 0.3  # a year


@xb.workload(sweep={"size": [100, 100_000, 4_000_000]}, quick={"size": [100_000]})
def black_scholes(spot: Any, strike: Any, years: Any) -> Any:
    """The prices of calls and puts, each of shape (size,), from arrays of that shape."""
    spread = VOLATILITY * xb.sqrt(years)
    d1 = (xb.log(spot / strike) + (RATE + VOLATILITY**2 / 2) * years) / spread
    d2 = d1 - spread
    discounted = strike * xb.exp(-RATE * years)
    call = spot * _normal(d1) - discounted * _normal(d2)
    put = discounted * _normal(-d2) - spot * _normal(-d1)
    return call, put


def _normal(x: Any) -> Any:
    """The cumulative distribution of the standard normal."""
    return 0.5 * (1.0 + xb.erf(x * math.sqrt(0.5)))


@black_scholes.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float32") -> list[np.ndarray]:
    """Prices from 10 to 50, of both kinds, and a quarter of a year to two years."""
    return [rng.uniform(*ends, size).astype(dtype) for ends in ((10.0, 50.0), (10.0, 50.0), (0.25, 2.0))]


check_drawn(black_scholes, lambda n: 3 * n)
