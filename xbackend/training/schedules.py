"""Schedules of the learning rate: functions of the step, an int64 scalar from 0. The formulas are optax's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from xbackend.api.functions.elementwise import cos, floor, less, minimum, pow, where
from xbackend.api.tracing.casting import cast
from xbackend.program.dtypes import DType
from xbackend.training.batches import check_whole

Schedule = Callable[[Any], Any]


def _number(step: Any) -> Any:
    return cast(step, DType.float64)


def exponential(rate: float, decay: float, steps: int, *, staircase: bool = False) -> Schedule:
    """rate * decay ** (step / steps); ``staircase`` floors the quotient. optax: `exponential_decay`."""
    check_whole(steps, f"steps={steps!r:.40} of a schedule")

    def at(step: Any) -> Any:
        quotient = _number(step) / float(steps)
        return rate * pow(decay, floor(quotient) if staircase else quotient)

    return at


def cosine(rate: float, steps: int, *, least: float = 0.0) -> Schedule:
    """From the rate to ``least`` times it: rate ((1 - least) (1 + cos(pi min(step, steps) / steps)) / 2 + least).

    optax: `cosine_decay_schedule`.
    """
    check_whole(steps, f"steps={steps!r:.40} of a schedule")

    def at(step: Any) -> Any:
        share = minimum(_number(step), float(steps)) / float(steps)
        return rate * ((1 - least) * 0.5 * (1.0 + cos(math.pi * share)) + least)

    return at


def piecewise(rate: float, factors: Mapping[int, float]) -> Schedule:
    """The rate, from each step of ``factors`` on multiplied by its factor. optax: `piecewise_constant_schedule`."""

    def at(step: Any) -> Any:
        now: Any = where(less(step, 0), float(rate), float(rate))
        for begin, factor in sorted(factors.items()):
            now = where(less(step, begin), now, now * factor)
        return now

    return at


def warmed_up(schedule: Schedule, rate: float, steps: int) -> Schedule:
    """Linear from 0 to ``rate`` over ``steps``; then ``schedule``, which counts its steps from there. optax:
    `join_schedules` of `linear_schedule` and the other."""
    check_whole(steps, f"steps={steps!r:.40} of a schedule")

    def at(step: Any) -> Any:
        return where(less(step, steps), rate * _number(step) / float(steps), schedule(step - steps))

    return at
