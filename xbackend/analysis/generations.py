"""The least-squares model of the logarithm of a time: candidates, and generations of processes that took turns.

The model is y = candidate + generation + residual. Without generations a candidate is the mean of its processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

from xbackend.interrupts import put_off

FEWEST_DEGREES = 4  # of all residuals together: fewer do not show how processes spread
_DIGITS = 12  # of a logarithm of seconds
_NONE = 1e-9  # degrees of freedom that count as 0


@dataclass(frozen=True)
class Fit:
    """The fitted model, of each candidate."""

    effects: list[float]  #: logarithms of seconds in the mean generation
    spreads: list[tuple[float, float]]  #: the residual variance of a process, and its degrees of freedom
    without_generations: list[list[float]]  #: logarithms of the processes' seconds less the effect of their generations
    blocked: bool  #: whether generations are part of the model
    between: float  #: the largest difference of the effects of two of them
    _weights: Any  # of each process in each effect, (candidates, processes)
    _candidate: Any  # of each process, (processes,)

    def covariance(self, variances: Sequence[float]) -> Any:
        """Covariance of the effects, (candidates, candidates), from each candidate's variance of a process."""
        import numpy as np

        return self._weights * np.array(variances)[self._candidate] @ self._weights.T


def fit(samples: Sequence[Sequence[float]], generations: Sequence[Sequence[int]]) -> Fit:
    """Fit the logarithms of seconds of each candidate's processes, which were in these generations.

    Generations are part of the model under two conditions. They connect all candidates: any two share one, directly or
    through a chain of candidates. And at least `FEWEST_DEGREES` degrees of freedom are left. Otherwise a candidate is
    the mean of its processes.
    """
    with put_off():
        import numpy as np
    y = np.array([value for sample in samples for value in sample])
    candidate = np.repeat(np.arange(len(samples)), [len(sample) for sample in samples])
    each = [candidate == i for i in range(len(samples))]
    columns = np.eye(len(samples))[candidate]
    between = _between(generations, len(samples), len(y))
    if between is None:
        spreads = [(variance(s) if len(s) > 1 else 0.0, float(len(s) - 1)) for s in samples]
        weights = np.array([mine / mine.sum() for mine in each])
        return Fit([fmean(s) for s in samples], spreads, [*map(list, samples)], False, 0.0, weights, candidate)
    columns = np.hstack([columns, between])
    inverse = np.linalg.pinv(columns)
    found = inverse @ y
    rest, free = y - columns @ found, 1 - np.einsum("ij,ji->i", columns, inverse)
    of_generations = found[len(samples) :]
    alone = np.round(y - between @ of_generations, _DIGITS)  # equal numbers are so to the last bit
    degrees = [float(free[mine].sum()) for mine in each]
    squares = [float((np.round(rest[mine], _DIGITS) ** 2).sum()) for mine in each]
    return Fit(
        effects=list(map(float, np.round(found[: len(samples)], _DIGITS))),
        spreads=[(square / d if d > _NONE else 0.0, d) for square, d in zip(squares, degrees, strict=True)],
        without_generations=[list(map(float, alone[mine])) for mine in each],
        blocked=True,
        between=float(np.ptp(of_generations)),
        _weights=inverse[: len(samples)],
        _candidate=candidate,
    )


def _between(generations: Sequence[Sequence[int]], candidates: int, processes: int) -> Any:
    """The columns of generations in the design matrix, (processes, generations), each with mean 0 over generations;
    `None` where generations are no part of the model."""
    import numpy as np

    of = np.array([number for numbers in generations for number in numbers])
    numbers = np.unique(of)
    rank = candidates + len(numbers) - 1
    if len(of) < processes or len(numbers) < 2 or processes - rank < FEWEST_DEGREES:
        return None
    columns = (of[:, None] == numbers).astype(float) - 1 / len(numbers)
    candidate = np.repeat(np.arange(candidates), [len(numbers) for numbers in generations])
    together = np.linalg.matrix_rank(np.hstack([np.eye(candidates)[candidate], columns])) == rank
    return columns if together else None
