"""The verdict of a ratio of two times, and the time of several processes: from the medians of fresh processes only.

Only `family` says whether two candidates differ: a `Family` of all that are compared, or of two. Seconds are compared
on the logarithmic scale, so that a ratio and its inverse are judged alike. Intervals are Student's, and a time is a
geometric mean: docs/measurement.md ("What a ratio says") has the simulated alternatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, stdev, variance

from xbackend.interrupts import put_off
from xbackend.wording import number, percent

LEVEL = 0.95  # of every interval that is shown
LOOKED = 0.96  # of the verdicts of a session that may stop early: looking on the way has an error of its own
SAME = 0.05  # two are called equal where the interval shows a difference of 5 % at most
FEWEST_SESSIONS = 5  # earlier runs: with fewer, nothing is known of how sessions differ
FEWEST = 3  # processes a side: with two, nothing is known of how they spread
SHORTEST, LONGEST = 1e-12, 1e12  # seconds that can be; others are of a damaged file


class Verdict(StrEnum):
    """What a ratio shows."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "equal"
    NOT_TOLD_APART = "not told apart"
    UNKNOWN = "too few processes"


@dataclass(frozen=True)
class Ratio:
    """The time of a candidate over that of a baseline: below 1 the candidate is faster.

    Below `FEWEST` processes a side ``low`` and ``high`` are nan and the verdict is ``UNKNOWN``; ``value`` is nan too
    where seconds cannot be divided.
    """

    value: float  #: the ratio of the geometric means
    low: float  #: its interval
    high: float
    verdict: Verdict
    processes: tuple[int, int]  #: that the candidate and the baseline had
    sessions: int = 0  #: earlier ones that show how sessions differ; 0: too few, or both sides are of one session

    @classmethod
    def of(cls, difference: float, margin: float, processes: tuple[int, int], sessions: int = 0) -> Ratio:
        """From the difference of the logarithms and half the width of its interval, nan where nothing is known.

        The interval alone decides: faster or slower where it does not hold 1, else equal where it lies within `SAME`.
        """
        value, low, high = (_exp(each) for each in (difference, difference - margin, difference + margin))
        if math.isnan(margin):
            verdict = Verdict.UNKNOWN
        elif abs(difference) > margin:
            verdict = Verdict.FASTER if difference < 0 else Verdict.SLOWER
        else:
            same = abs(difference) + margin <= math.log1p(SAME)
            verdict = Verdict.EQUAL if same else Verdict.NOT_TOLD_APART
        return cls(value, low, high, verdict, processes, sessions)

    @property
    def inverse(self) -> Ratio:
        """How many times as fast the candidate is; the verdict stays the candidate's."""
        return replace(self, value=1 / self.value, low=1 / self.high, high=1 / self.low)

    @property
    def shown(self) -> bool:
        """Whether it is shown that the two differ."""
        return self.verdict in (Verdict.FASTER, Verdict.SLOWER)

    @property
    def smallest(self) -> float:
        """The smallest ratio above 1 (or its inverse) that would have been called a difference, with this spread; nan
        without an interval."""
        return self.high / self.value if math.isfinite(self.low) else math.nan

    @property
    def furthest(self) -> float:
        """The end of the interval that is further from 1, as a factor from 1 up; nan without an interval."""
        return max(self.high, 1 / self.low) if self.low > 0 else math.inf if self.low == 0 else math.nan

    @property
    def words(self) -> str:
        """The verdict; of an equality with its bound: ``equal within 3.2 %``."""
        return f"{self.verdict} within {percent(self.furthest)}" if self.verdict is Verdict.EQUAL else str(self.verdict)


def between(low: float, high: float) -> str:
    """An interval in words, as in ``0.95 to 1.2``, or that there is none."""
    return f"{number(low)} to {number(high)}" if math.isfinite(low) and math.isfinite(high) else "no interval"


def time_of(medians: Sequence[float]) -> float:
    """The time of a candidate, in seconds: the geometric mean of its processes' medians; nan where it has none.

    A ratio divides two of these.
    """
    known = logarithms(medians)
    if not known:
        return math.nan
    return medians[0] if min(medians) == max(medians) else math.exp(fmean(known))


def interval(medians: Sequence[float]) -> tuple[float, float] | None:
    """The interval at `LEVEL` of the geometric mean of one candidate's seconds; `None` below `FEWEST` processes.

    It is for error bars. Two of them that overlap or do not are no verdict: that is the ratio's.
    """
    known = logarithms(medians)
    if len(known) < FEWEST:
        return None
    middle, half = fmean(known), welch((known,), LEVEL)
    return _exp(middle - half), _exp(middle + half)


def difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """By how much the mean of the first is above that of the second, and half the width of its interval (Welch's), of
    two values each at least."""
    return fmean(first) - fmean(second), welch((first, second), LEVEL)


def half_width(medians: Sequence[float]) -> float:
    """Half the width of `interval` as a part of the time: 0.02 is 2 %. Infinite below `FEWEST` processes."""
    known = logarithms(medians)
    return math.expm1(min(welch((known,), LEVEL), 700.0)) if len(known) >= FEWEST else math.inf


def logarithms(seconds: Sequence[float]) -> list[float]:
    """The logarithms of seconds; nothing if any of them cannot be a duration."""
    return [math.log(s) for s in seconds] if all(SHORTEST < s < LONGEST for s in seconds) else []


def _exp(logarithm: float) -> float:
    return math.inf if logarithm >= 700 else math.exp(logarithm)


def welch(samples: Sequence[Sequence[float]], level: float, weights: Sequence[float] = (1.0, -1.0)) -> float:
    """Half the width of the interval of a weighted sum of the means of independent samples: of one mean, or of the
    difference of two (Welch and Satterthwaite)."""
    parts = [weight**2 * variance(sample) / len(sample) for weight, sample in zip(weights, samples, strict=False)]
    total = sum(parts)
    if total == 0.0:
        return 0.0
    degrees = total**2 / sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, samples, strict=True))
    return student(level, degrees) * math.sqrt(total)


def margin_of_sessions(times: Sequence[float]) -> float:
    """Half the width of the interval of the difference of two sessions, from the ``times`` in seconds of earlier ones;
    0 below `FEWEST_SESSIONS`, as nothing is known."""
    known = logarithms(times)
    if len(known) < FEWEST_SESSIONS:
        return 0.0
    return student(LEVEL, len(known) - 1) * stdev(known) * math.sqrt(2)


def student(level: float, degrees: float) -> float:
    """The number of standard errors within which a part ``level`` of Student's distribution lies."""
    with put_off():
        from scipy import stats

    return float(stats.t.ppf((1 + level) / 2, degrees))
