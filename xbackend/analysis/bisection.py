"""In which release something changed: which one to look at next, and what a comparison of two says of it.

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

LEVEL_OF_STEP = 0.8  # at which a release is nearer to one end: simulated, see docs/measurement.md


class What(StrEnum):
    """What may have changed."""

    TIME = "time"  # of a call
    COMPILE = "compile"  # from tracing to the end of the first call
    NUMBERS = "numbers"  # what it returns


def search(count: int, changed: Callable[[int], bool | None]) -> list[tuple[int, int]]:
    """The brackets of a bisection, the widest first: the last of ``count`` that is as the first, the first that is not.

    Number 0 is as the first and ``count - 1`` is not. ``changed(i)`` says whether number i is not; `None` where that
    cannot be found out, and the nearest one to the middle takes its place. All within the last bracket are of that
    kind. About log2(count) are asked for where none is.
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
    """The outermost two of ``count`` that ``works(low, high)`` says work; `None` without two.

    Where one does not, the next is taken, then the one 2, 4, 8... further on, as old releases fail by the dozen.
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


Session = tuple[Sequence[float], Sequence[float], Sequence[float]]


def nearer(sessions: Sequence[Session], slower: bool) -> bool | None:
    """Whether a release is nearer to the last one than to the first; `None` where that is not shown.

    Each session has the seconds of the processes of the release, of the first and of the last one, measured beside each
    other, so that what sessions differ by is no part of it. The mean of its distance from their middle, weighted by
    processes, has a Student's interval at `LEVEL_OF_STEP` (Welch and Satterthwaite). A release that is as one of the
    ends lies half of the change from that middle, so it errs far more rarely than that level says.
    """
    fewest = [min(map(len, session)) for session in sessions]
    if not fewest or min(fewest) < FEWEST or min(map(min, chain.from_iterable(sessions))) <= 0:
        return None
    samples = [[math.log(one) for one in seconds] for session in sessions for seconds in session]
    weights = [part * few / sum(fewest) for few in fewest for part in (1.0, -0.5, -0.5)]
    distance = sum(weight * fmean(sample) for weight, sample in zip(weights, samples, strict=True))
    return None if abs(distance) <= welch(samples, LEVEL_OF_STEP, weights) else (distance > 0) is slower


def change(head: Row, base: Row, what: What, from_cache: bool = False) -> Ratio | None:
    """The time, or the time of compilation, of a row over that of another one of the same session; `None` without.

    It is that of compilation with an empty cache on disk, or ``from_cache``."""
    if not (head.times and base.times):
        return None
    if what is What.TIME:
        return ratio(head.times, base.times, generations=[head.generations, base.generations])
    ours, theirs = (row.from_cache if from_cache else row.compilations for row in (head, base))
    return ratio(ours, theirs) if ours and theirs else None
