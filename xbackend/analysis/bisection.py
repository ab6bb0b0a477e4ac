"""Bisection of releases: which one to measure next, and the verdict on two.

Verdicts are those of `family.ratio`, of two that were measured in one session.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import chain
from statistics import fmean

from xbackend.analysis.comparison import Row
from xbackend.analysis.family import ratio
from xbackend.analysis.statistics import FEWEST, Ratio, welch

LEVEL_OF_STEP = 0.8  # of the interval that decides for one end: simulated, see docs/measurement.md


class What(StrEnum):
    """What may have changed."""

    TIME = "time"  # of a call
    COMPILE = "compile"  # from tracing to the end of the first call
    NUMBERS = "numbers"  # what it returns


def search(count: int, changed: Callable[[int], bool | None]) -> list[tuple[int, int]]:
    """The brackets of a bisection of ``count`` releases, the widest first: the last unchanged and the first changed
    one.

    Number 0 is unchanged and ``count - 1`` is changed. ``changed(i)`` is `None` where i cannot be decided; then the
    next nearest to the middle is tried. Inside the last bracket all are undecided. About log2(count) are tried without
    these.
    """
    brackets, unknown = [(0, count - 1)], set[int]()
    low, high = brackets[0]
    while inner := [i for i in range(low + 1, high) if i not in unknown]:
        middle = min(inner, key=lambda i: abs(2 * i - low - high))
        answer = changed(middle)
        if answer is None:
            unknown.add(middle)
            continue
        low, high = (low, middle) if answer else (middle, high)
        brackets.append((low, high))
    return brackets


def ends(count: int, works: Callable[[int, int], tuple[bool, bool]]) -> tuple[int, int] | None:
    """The outermost two working releases of ``count``, by ``works(low, high)``; `None` without two.

    An end that does not work moves inwards by 1, 2, 4, 8..., as old releases fail by the dozen.
    """
    low, high, up, down = 0, count - 1, 1, 1
    while low < high:
        first, last = works(low, high)
        if first and last:
            return low, high
        if not first:
            low, up = low + up, 2 * up
        if not last:
            high, down = high - down, 2 * down
    return None


Times = tuple[Sequence[float], Sequence[float], Sequence[float]]


def nearer(sessions: Sequence[Times], slower: bool) -> bool | None:
    """Whether a release is nearer to the last one than to the first; `None` where that is not shown.

    Each session has the seconds of the processes of the release, of the first and of the last one, measured beside each
    other, so that differences between sessions cancel. The mean distance from the middle of the two, weighted by
    processes, has a Student's interval at `LEVEL_OF_STEP` (Welch and Satterthwaite). A release equal to one end lies
    half of the change from that middle, so errors are far rarer than that level says.
    """
    fewest = [min(map(len, session)) for session in sessions]
    if not fewest or min(fewest) < FEWEST or min(map(min, chain.from_iterable(sessions))) <= 0:
        return None
    samples = [[math.log(one) for one in seconds] for session in sessions for seconds in session]
    weights = [part * few / sum(fewest) for few in fewest for part in (1.0, -0.5, -0.5)]
    distance = sum(weight * fmean(sample) for weight, sample in zip(weights, samples, strict=True))
    return None if abs(distance) <= welch(samples, LEVEL_OF_STEP, weights) else (distance > 0) is slower


def change(head: Row, base: Row, what: What, from_cache: bool = False) -> Ratio | None:
    """The time, or the time of compilation, of a row over that of another one of the same session; `None` where one has
    none. Compilation is with an empty cache on disk, or ``from_cache``."""
    if not (head.times and base.times):
        return None
    if what is What.TIME:
        return ratio(head.times, base.times, generations=[head.generations, base.generations])
    ours, theirs = (row.from_cache if from_cache else row.compilations for row in (head, base))
    return ratio(ours, theirs) if ours and theirs else None
