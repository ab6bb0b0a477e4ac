"""An epidemic day by day: susceptible, exposed, infectious, recovered, and the likelihood of the observed cases.

    S' = -b S I,  E' = b S I - s E,  I' = s E - g I,  R' = g I;  cases_t ~ Poisson(s E_t N)

Source: Hethcote, The Mathematics of Infectious Diseases, SIAM Review 42 (2000) 599, with Euler steps of a day and
fractions of a population of N. The constant term of the Poisson density is left out. Size is days: 60 and 1000 steps of
a loop over a few numbers, dispatch within the framework.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

PEOPLE = 100_000.0
START = (0.99, 0.006, 0.004, 0.0)


@xb.workload(sweep={"size": [60, 1000]}, quick={"size": [60]}, gradient="log_rates")
def seir(log_rates: Any, start: Any, cases: Any) -> Any:
    """A scalar, from the logarithms of b, s and g (3,), the first fractions (4,) and the cases of each day (size,)."""
    rates = xb.exp(log_rates)

    def day(parts: Any, seen: Any) -> Any:
        infected, ill, well = rates[0] * parts[0] * parts[2], rates[1] * parts[1], rates[2] * parts[2]
        expected = PEOPLE * ill
        change = xb.stack([-infected, infected - ill, ill - well, well])
        return parts + change, seen * xb.log(expected) - expected

    _, each = xb.scan(day, start, cases)
    return xb.sum(each)


@seir.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float64") -> list[np.ndarray]:
    """Cases drawn from the model, and rates close to the true ones."""
    rates, parts, cases = np.array([0.4, 0.25, 0.15]), np.array(START), []
    for _ in range(size):
        infected, ill, well = rates[0] * parts[0] * parts[2], rates[1] * parts[1], rates[2] * parts[2]
        cases.append(rng.poisson(PEOPLE * ill))
        parts = parts + np.array([-infected, infected - ill, ill - well, well])
    given = [np.log(rates) + 0.05 * rng.standard_normal(3), np.array(START), np.array(cases)]
    return [array.astype(dtype) for array in given]


check_drawn(seir, lambda n: n)
