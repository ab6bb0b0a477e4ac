"""Gradients at kinks, at zeros and beside infinities: docs/numbers.md states them for every backend."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from batches import Batch, Check
from tolerances import CHAIN

import xbackend as xb

inf = np.inf


class Known(NamedTuple):
    """The sum of ``loss(*arrays)`` is differentiated ``times`` times by the array of that number."""

    loss: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    want: Any
    number: int = 0
    times: int = 1

    def gradient(self, *arrays: Any) -> Any:
        """Traced."""
        value = self.loss(*arrays)
        for _ in range(self.times):
            value = xb.grad(xb.sum(value), arrays[self.number])
        return value


def _of(*numbers: Any) -> np.ndarray:
    return np.array(numbers, "float64")


# Three states, beginning in the first, with two possible transitions from each.
EMISSIONS = np.log(_of([0.5, 0.2, 0.3], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4], [0.25, 0.25, 0.5]))
TRANSITIONS = _of([0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0])
LOG_TRANSITIONS = np.log(TRANSITIONS, where=TRANSITIONS > 0.0, out=np.full((3, 3), -inf))


def forward(emissions: Any, transitions: Any) -> Any:
    """The log probability of the emissions, by the forward algorithm."""

    def step(alpha: Any, emission: Any) -> tuple[Any, None]:
        return xb.logsumexp(alpha[:, None] + transitions, axis=0) + emission, None

    begin = xb.asarray(_of(0.0, -inf, -inf)) + emissions[0]
    return xb.logsumexp(xb.scan(step, begin, emissions[1:])[0])


def expectations() -> tuple[np.ndarray, np.ndarray]:
    """The gradients of `forward`: the expected emissions and transitions, over all paths one by one."""
    emitted, made = np.zeros((4, 3)), np.zeros((3, 3))
    for path in itertools.product(range(3), repeat=4):
        pairs = list(itertools.pairwise(path))
        likelihood = np.exp(EMISSIONS[range(4), path].sum()) * np.prod([TRANSITIONS[pair] for pair in pairs])
        for t, state in enumerate(path if path[0] == 0 else ()):
            emitted[t, state] += likelihood
        for pair in pairs if path[0] == 0 else ():
            made[pair] += likelihood
    return emitted / emitted[0, 0], made / emitted[0, 0]


EMITTED, MADE = expectations()
Z, PAIRS = _of(0.0, 1.0, -2.0), (_of(1.0, 2.0, 1.0), _of(1.0, 1.0, 2.0))
NUMBERS, SIDES = _of(0.0, 1.0, 1.0, 3.0, -3.0, 0.0), _of(0.0, 1.0, 0.0, 0.0, 0.0, 2.0)
ROOT = 2.0**-0.5
# Abramowitz and Stegun, Handbook of Mathematical Functions, 6.3.3, 6.3.5, 6.4.4 and 6.4.6.
ABOVE_POLES = _of(-0.5, -2.5, 1.0)
DIGAMMA = _of(2.0 - 2.0 * np.log(2.0), 46.0 / 15.0 - 2.0 * np.log(2.0), 0.0) - np.euler_gamma
TRIGAMMA = _of(np.pi**2 / 2.0 + 4.0, np.pi**2 / 2.0 + 4.0 + 4.0 / 9.0 + 4.0 / 25.0, np.pi**2 / 6.0)
WHOLE = _of(0.0, 0.5, -1.0, 5.0)
LOGS = _of(-inf, -inf, 0.0, 0.0), _of(-inf, 0.0, -inf, 0.0)
ROWS = _of([-inf, -inf], [0.0, 0.0], [-inf, 3.0], [1.0, -inf])
SINGULAR = np.zeros((2, 2))


def _chosen(untaken: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: xb.cond(xb.sum(x) > 0.0, untaken, lambda x: x * x + 3.0 * x, x)


KNOWN: dict[str, Known] = {
    "polynomial": Known(lambda x: 1.0 * x**0 + 2.0 * x**1 + 3.0 * x**2, (Z,), 2.0 + 6.0 * Z),
    **{f"power_{n}_{n + 1}_times": Known(lambda x, n=n: x**n, (Z,), 0.0 * Z, times=n + 1) for n in range(4)},
    "power_of_zeros": Known(xb.pow, (np.zeros(4), _of(1.0, 2.0, 3.0, 0.0)), [1.0, 0.0, 0.0, 0.0]),
    "power_of_zeros_twice": Known(xb.pow, (np.zeros(4), _of(1.0, 2.0, 3.0, 0.0)), [0.0, 2.0, 0.0, 0.0], times=2),
    "running_product_of_zeros": Known(xb.cumulative_prod, (_of(2.0, 0.0, 3.0, 0.0, 5.0),), [1.0, 8.0, 0.0, 0.0, 0.0]),
    "product_of_zeros_twice": Known(
        lambda x: xb.prod(x, axis=(0, 2)),
        (_of([[2.0, 0.0, 3.0], [1.0, 2.0, 3.0]], [[1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]),),
        [[[15.0, 91.0, 10.0], [23.0, 13.0, 9.0]], [[30.0, 6.0, 30.0], [23.0, 23.0, 23.0]]],
        times=2,
    ),
    "running_product_along_columns": Known(
        lambda x: xb.cumulative_prod(x, axis=0),
        (_of([2.0, 0.0], [0.0, 3.0], [5.0, 0.0]),),
        [[1.0, 4.0], [12.0, 0.0], [0.0, 0.0]],
    ),
    "running_product_in_a_scan": Known(
        lambda x: xb.scan(lambda c, v: (c + xb.sum(xb.cumulative_prod(v * c)), None), xb.asarray(1.0), x)[0],
        (_of([0.0, 2.0, 3.0]),),
        [[9.0, 0.0, 0.0]],
    ),
    "floor_divide": Known(lambda x: xb.floor_divide(x, 2.0) + x, (WHOLE,), [1.0] * 4),
    "floor_divide_divisor": Known(lambda x, y: xb.floor_divide(x, y) + y, (WHOLE, WHOLE + 2.0), [1.0] * 4, 1),
    "floor_divide_by_zero": Known(lambda x, y: xb.floor_divide(x, y) + x, (WHOLE, np.zeros(4)), [1.0] * 4),
    "remainder": Known(lambda x: xb.remainder(x, -2.0), (WHOLE,), [1.0] * 4),
    "remainder_divisor": Known(xb.remainder, (WHOLE, np.full(4, 2.0)), [0.0, 0.0, 1.0, -2.0], 1),
    **{
        name: Known(lambda x, name=name: getattr(xb, name)(x) + x, (WHOLE,), [1.0] * 4)
        for name in ("sign", "floor", "ceil", "trunc", "round")
    },
    "copysign": Known(xb.copysign, (_of(1.0, 2.0, -3.0), _of(1.0, -1.0, 0.0)), [1.0, -1.0, -1.0]),
    "abs": Known(xb.abs, (Z,), [0.0, 1.0, -1.0]),
    "max": Known(lambda x: xb.max(x, axis=1), (_of([1, 1, 0], [2, 2, 2]),), [[0.5, 0.5, 0.0], [1 / 3] * 3]),
    "min": Known(xb.min, (_of([1, 1, 2], [2, 1, 2]),), [[1 / 3, 1 / 3, 0.0], [0.0, 1 / 3, 0.0]]),
    "maximum": Known(xb.maximum, PAIRS, [0.5, 1.0, 0.0]),
    "maximum_second": Known(xb.maximum, PAIRS, [0.5, 0.0, 1.0], 1),
    "minimum": Known(xb.minimum, PAIRS, [0.5, 0.0, 1.0]),
    "minimum_broadcast": Known(lambda x, y: xb.minimum(y, x[:, None]), PAIRS, [2.0, 0.5, 2.0]),
    "maximum_of_zero": Known(lambda x: xb.maximum(x, 0.0), (Z,), [0.5, 1.0, 0.0]),
    "clip": Known(lambda x: xb.clip(x, 0.0, 1.0), (_of(0.0, 1.0, 0.5, -1.0, 2.0),), [0.5, 0.5, 1.0, 0.0, 0.0]),
    "hypot": Known(xb.hypot, (NUMBERS, SIDES), [0.0, ROOT, 1.0, 1.0, -1.0, 0.0]),
    "hypot_second": Known(xb.hypot, (NUMBERS, SIDES), [0.0, ROOT, 0.0, 0.0, 0.0, 1.0], 1),
    "erf_of_large": Known(xb.erf, (_of(1e154, 1e155, -1e300),), [0.0] * 3),
    "gammaln_of_negative": Known(xb.gammaln, (ABOVE_POLES,), DIGAMMA),
    "gammaln_of_negative_in_float32": Known(xb.gammaln, (ABOVE_POLES.astype("float32"),), DIGAMMA),
    "gammaln_of_negative_twice": Known(xb.gammaln, (ABOVE_POLES,), TRIGAMMA, times=2),
    "digamma_of_negative": Known(xb.digamma, (ABOVE_POLES,), TRIGAMMA),
    "logsumexp": Known(lambda x: xb.logsumexp(x, axis=1), (ROWS,), [[0.0, 0.0], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]),
    "logsumexp_of_impossible": Known(xb.logsumexp, (ROWS[0],), [0.0, 0.0]),
    "logaddexp": Known(xb.logaddexp, LOGS, [0.0, 0.0, 1.0, 0.5]),
    "logaddexp_second": Known(xb.logaddexp, LOGS, [0.0, 1.0, 0.0, 0.5], 1),
    "forward_emissions": Known(forward, (EMISSIONS, LOG_TRANSITIONS), EMITTED),
    "forward_transitions": Known(forward, (EMISSIONS, LOG_TRANSITIONS), MADE, 1),
    "cond_without_log": Known(_chosen(xb.log), (_of(0.0, 0.0),), [3.0, 3.0]),
    "cond_without_log_twice": Known(_chosen(xb.log), (_of(0.0, 0.0),), [2.0, 2.0], times=2),
    "cond_without_inv": Known(_chosen(xb.linalg.inv), (SINGULAR,), SINGULAR + 3.0),
    "cond_in_a_scan": Known(
        lambda x: xb.scan(lambda c, v: (c + _chosen(xb.log)(v), None), xb.asarray(0.0), x)[0], (Z,), [3.0, 1.0, -1.0]
    ),
}
# The others are much like these.
CORE = frozenset(
    {
        "polynomial",
        "power_3_4_times",
        "floor_divide",
        "abs",
        "max",
        "maximum",
        "clip",
        "hypot",
        "logsumexp",
        "logaddexp",
    }
    | {"logsumexp", "logaddexp", "forward_transitions", "cond_without_log", "cond_without_inv"}
)


def known() -> Batch:
    checks = [
        Check(f"grad-known-{k}", v.gradient, v.arrays, "array", CHAIN, k in CORE, derived=True)
        for k, v in KNOWN.items()
    ]
    return Batch("gradients-known", tuple(checks))
