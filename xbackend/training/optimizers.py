"""Optimisers: the update of a weight from its gradient, as ops of the program. The formulas are those of optax 0.2.8.

An optimiser keeps arrays for each weight, its slots. They are on the weight's device, so an update transfers nothing.
Keras differs: its momentum multiplies by the rate before it accumulates, so that a change of the rate does not act on
the sum so far; its Adam and RMSprop have an epsilon of 1e-7, where optax has 1e-8.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import Any

from xbackend.api.functions.elementwise import add, less, pow, sqrt, square, where
from xbackend.api.functions.reductions import sum
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import cast, is_scalar
from xbackend.api.tracing.tracer import current
from xbackend.errors import ArgumentError
from xbackend.workloads.workload import plain

# The learning rate: a number, or a function of the step, an int64 scalar that counts from 0.
Rate = float | Callable[[Array], Any]
Slots = Mapping[str, Array]  # by name
Updated = tuple[Array, dict[str, Array]]  # a weight and its slots


class Optimizer(abc.ABC):
    """How weights follow their gradients.

    ``rate`` is a number or a schedule (`xbackend.training.schedules`). ``clip`` bounds the global norm of all
    gradients, the root of the sum of their squares: larger ones are scaled to it (optax: `clip_by_global_norm`).

    >>> optimizer = xb.training.Adam(rate=0.01, clip=1.0)
    >>> optimizer.slots
    ('mean', 'square')
    >>> def updated(w, g):
    ...     step, slots = xb.asarray(0), {name: xb.zeros_like(w) for name in optimizer.slots}
    ...     print(optimizer.rate_at(step, w))
    ...     return optimizer.update(w, optimizer.limited([g])(g), slots, step)[0]
    >>> backend.compile(updated, np.ones(2), np.ones(2))(np.ones(2), np.asarray([3.0, -4.0]))
    0.01
    array([0.99, 1.01])
    """

    rate: Rate
    clip: float | None

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the arrays kept for each weight. They begin as zeros."""
        return ()

    def limited(self, gradients: Sequence[Array]) -> Callable[[Array], Array]:
        """A function that scales each gradient by the global norm of ``gradients``."""
        limit = self.clip
        if limit is None:
            return lambda gradient: gradient
        norm = sqrt(reduce(add, [sum(square(cast(g, gradients[0].dtype))) for g in gradients]))
        factor = where(less(norm, limit), 1.0, limit / norm)
        return lambda gradient: gradient * cast(factor, gradient.dtype)

    @abc.abstractmethod
    def update(self, weight: Array, gradient: Array, slots: Slots, step: Array) -> Updated:
        """The weight and its slots after step ``step`` (an int64 scalar, from 0)."""

    def rate_at(self, step: Array, like: Array) -> Any:
        """The rate of a step: a number, or a scalar of the dtype of ``like``, a weight."""
        rate = self.rate(step) if callable(self.rate) else self.rate
        return rate if is_scalar(rate) else cast(current("a rate").array(rate), like.dtype)


def _checked(optimizer: Optimizer, **bounds: float) -> None:
    """Make its numbers Python's. Raises `ArgumentError` unless they are from 0 to below their bounds, and rate and clip
    above 0."""
    own, given = type(optimizer).__name__, vars(optimizer)
    given.update({name: plain(value) for name, value in given.items()})
    for what, below in bounds.items():
        value = given[what]
        if not _is_number(value) or not 0 <= value < below:
            raise ArgumentError(f"{own}: {what}={value!r:.40} is no number from 0 to below {below:g}")
    for what, value in (("rate", optimizer.rate), ("clip", optimizer.clip)):
        fixed = value is not None and not callable(value)
        if fixed and (not _is_number(value) or not 0 < value < inf):  # type: ignore[operator]
            raise ArgumentError(f"{own}: {what}={value!r:.40} is no number above 0")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent, with ``momentum`` m:  v = g + m v,  w = w - rate v;  ``nesterov``:  w = w - rate (g + m v).

    optax: `trace`, `scale_by_learning_rate`.

    >>> optimizer = xb.training.SGD(0.1, momentum=0.9)
    >>> slots = {name: np.zeros(2) for name in optimizer.slots}
    >>> run = backend.compile(lambda w, g: optimizer.update(w, g, slots, xb.asarray(0))[0], np.ones(2), np.ones(2))
    >>> run(np.ones(2), np.ones(2))
    array([0.9, 0.9])
    """

    rate: Rate = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    clip: float | None = None

    def __post_init__(self) -> None:
        _checked(self, momentum=1.0)

    @property
    def slots(self) -> tuple[str, ...]:
        return ("velocity",) if self.momentum else ()

    def update(self, weight: Array, gradient: Array, slots: Slots, step: Array) -> Updated:
        if not self.momentum:
            return weight - self.rate_at(step, weight) * gradient, {}
        velocity = gradient + self.momentum * slots["velocity"]
        moved = gradient + self.momentum * velocity if self.nesterov else velocity
        return weight - self.rate_at(step, weight) * moved, {"velocity": velocity}


@dataclass(frozen=True)
class RMSProp(Optimizer):
    """n = d n + (1 - d) g^2,  w = w - rate g / sqrt(n + e).  optax: `scale_by_rms`, with epsilon under the root.

    >>> optimizer = xb.training.RMSProp(0.1)
    >>> slots = {name: np.zeros(2) for name in optimizer.slots}
    >>> run = backend.compile(lambda w, g: optimizer.update(w, g, slots, xb.asarray(0))[0], np.ones(2), np.ones(2))
    >>> run(np.ones(2), np.ones(2))
    array([0.68377225, 0.68377225])
    """

    rate: Rate = 0.001
    decay: float = 0.9
    epsilon: float = 1e-8
    clip: float | None = None
    slots = ("square",)

    def __post_init__(self) -> None:
        _checked(self, decay=1.0, epsilon=inf)

    def update(self, weight: Array, gradient: Array, slots: Slots, step: Array) -> Updated:
        squares = self.decay * slots["square"] + (1 - self.decay) * square(gradient)
        moved = gradient / sqrt(squares + self.epsilon)
        return weight - self.rate_at(step, weight) * moved, {"square": squares}


@dataclass(frozen=True)
class Adam(Optimizer):
    """m = a m + (1 - a) g,  n = b n + (1 - b) g^2,  w = w - rate (m / (1 - a^t)) / (sqrt(n / (1 - b^t)) + e), t from 1.

    Kingma and Ba (2015), algorithm 1; optax: `scale_by_adam`.

    >>> optimizer = xb.training.Adam(0.1)
    >>> slots = {name: np.zeros(2) for name in optimizer.slots}
    >>> run = backend.compile(lambda w, g: optimizer.update(w, g, slots, xb.asarray(0))[0], np.ones(2), np.ones(2))
    >>> run(np.ones(2), np.ones(2))
    array([0.9, 0.9])
    """

    rate: Rate = 0.001
    a: float = 0.9
    b: float = 0.999
    epsilon: float = 1e-8
    clip: float | None = None
    slots = ("mean", "square")

    def __post_init__(self) -> None:
        _checked(self, a=1.0, b=1.0, epsilon=inf)

    def update(self, weight: Array, gradient: Array, slots: Slots, step: Array) -> Updated:
        mean = self.a * slots["mean"] + (1 - self.a) * gradient
        squares = self.b * slots["square"] + (1 - self.b) * square(gradient)
        count = cast(step, weight.dtype) + 1.0
        mean_hat = mean / (1.0 - pow(self.a, count))
        squares_hat = squares / (1.0 - pow(self.b, count))
        moved = mean_hat / (sqrt(squares_hat) + self.epsilon)
        return weight - self.rate_at(step, weight) * moved, {"mean": mean, "square": squares}
