"""Schedules of the learning rate: functions of the step, an int64 scalar from 0. The formulas are optax's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from xbackend.api.functions.elementwise import cos, floor, less, minimum, pow, where
from xbackend.api.tracing.casting import cast
from xbackend.program.dtypes import DType
from xbackend.program.host import check_whole

LearningRate = Callable[[Any], Any]


def _number(step: Any) -> Any:
    return cast(step, DType.float64)


def exponential(rate: float, decay: float, steps: int, *, staircase: bool = False) -> LearningRate:
    """rate * decay ** (step / steps); ``staircase`` floors the quotient. optax: `exponential_decay`.

    >>> rate = xb.training.schedules.exponential(0.1, decay=0.5, steps=10)
    >>> run = backend.compile(rate, np.int64(0))
    >>> [round(float(run(np.int64(step))), 4) for step in (0, 10, 20)]
    [0.1, 0.05, 0.025]
    """
    check_whole(steps, f"steps={steps!r:.40} of a schedule")

    def at(step: Any) -> Any:
        quotient = _number(step) / float(steps)
        return rate * pow(decay, floor(quotient) if staircase else quotient)

    return at


def cosine(rate: float, steps: int, *, least: float = 0.0) -> LearningRate:
    """From the rate to ``least`` times it: rate ((1 - least) (1 + cos(pi min(step, steps) / steps)) / 2 + least).

    optax: `cosine_decay_schedule`.

    >>> rate = xb.training.schedules.cosine(0.1, steps=10)
    >>> run = backend.compile(rate, np.int64(0))
    >>> [round(float(run(np.int64(step))), 4) for step in (0, 5, 10)]
    [0.1, 0.05, 0.0]
    """
    check_whole(steps, f"steps={steps!r:.40} of a schedule")

    def at(step: Any) -> Any:
        share = minimum(_number(step), float(steps)) / float(steps)
        return rate * ((1 - least) * 0.5 * (1.0 + cos(math.pi * share)) + least)

    return at


def piecewise(rate: float, factors: Mapping[int, float]) -> LearningRate:
    """The rate, from each step of ``factors`` on multiplied by its factor. optax: `piecewise_constant_schedule`.

    >>> rate = xb.training.schedules.piecewise(0.1, {10: 0.5, 20: 0.1})
    >>> run = backend.compile(rate, np.int64(0))
    >>> [round(float(run(np.int64(step))), 4) for step in (0, 10, 20)]
    [0.1, 0.05, 0.005]
    """

    def at(step: Any) -> Any:
        now: Any = float(rate)
        for begin, factor in sorted(factors.items()):
            now = where(less(step, begin), now, now * factor)
        return now

    return at


def warmed_up(schedule: LearningRate, rate: float, steps: int) -> LearningRate:
    """Linear from 0 to ``rate`` over ``steps``; then ``schedule``, which counts its steps from there. optax:
    `join_schedules` of `linear_schedule` and the other.

    >>> rate = xb.training.schedules.warmed_up(xb.training.schedules.cosine(0.1, steps=10), 0.1, steps=4)
    >>> run = backend.compile(rate, np.int64(0))
    >>> [round(float(run(np.int64(step))), 4) for step in (0, 2, 4, 14)]
    [0.0, 0.05, 0.1, 0.0]
    """
    check_whole(steps, f"steps={steps!r:.40} of a schedule")

    def at(step: Any) -> Any:
        return where(less(step, steps), rate * _number(step) / float(steps), schedule(step - steps))

    return at
