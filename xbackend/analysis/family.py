"""All statements about the candidates of one session, made so that at most one session of twenty holds a wrong one.

It is a closed test of ranges (Ryan, Einot, Gabriel and Welsch: Welsch, Stepwise Multiple Comparison Procedures, Journal
of the American Statistical Association 72 (1977) 566). Two candidates are told apart if every set with both is shown to
be unequal: by the studentized range of its p candidates, at 1 - level^(p/k) of k candidates, and at 1 - level from k -
1 candidates on.

Processes of one generation take turns, so the same seconds are slow for all of them. The logarithm of a time is
therefore the sum of an effect of its candidate, an effect of its generation, and a residual: two factors without
interaction, by least squares (Scheffé, The Analysis of Variance (1959), chapter 4). Two candidates of different
generations are compared by way of candidates that were in both.

The candidates are measured on one machine by turns, so their spread is pooled: a process has the variance of all, or of
its candidate where that is larger. A wild candidate adds at most five times the median spread. Two candidates without
generations each have their own variance, as in Welch's interval. Why: docs/measurement.md ("What a ratio says").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from statistics import fmean, median

from xbackend.analysis.generations import FEWEST_DEGREES, Fit, fit
from xbackend.analysis.statistics import FEWEST, LEVEL, Ratio, logarithms, margin_of_sessions, student
from xbackend.interrupts import put_off

_OWN = 0.5  # degrees of freedom: with fewer, nothing is known of a candidate's own spread
_WILD = 5.0  # times the median spread: the most that a candidate adds to the pooled one


class Family:
    """Candidates, each given as seconds: one median a process. Their statements err in ``1 - level`` of sessions.

    ``generations`` are those of the processes; without them, or with too few degrees of freedom left, processes differ
    by chance alone. Candidates with fewer than `FEWEST` processes take part if the others show how processes spread: a
    candidate that is far behind is measured once. Candidates with impossible seconds take no part.
    """

    def __init__(
        self, samples: Sequence[Sequence[float]], level: float = LEVEL, generations: Sequence[Sequence[int]] = ()
    ) -> None:
        self._samples = [*map(logarithms, samples)]
        self._level = level
        known = sum(len(sample) - 1 for sample in self._samples if sample)
        fewest = 1 if len(self._samples) > 2 and known >= FEWEST_DEGREES else FEWEST
        self._members = [i for i, sample in enumerate(self._samples) if len(sample) >= fewest]
        self._generations = [list(generations[i]) if generations else [] for i in self._members]

    def ratio(self, one: int, other: int, earlier: Sequence[float] = ()) -> Ratio:
        """The time of a candidate over that of another one, with its interval and verdict.

        For two of different sessions, ``earlier`` are the candidate's times in earlier ones. Sessions differ by more
        than the processes of one, so the interval is at least as wide as theirs.
        """
        ours, theirs = self._samples[one], self._samples[other]
        processes = (len(ours), len(theirs))
        if not {one, other} <= {*self._members}:
            return Ratio.of(fmean(ours) - fmean(theirs) if ours and theirs else math.nan, math.nan, processes)
        at, against = self._members.index(one), self._members.index(other)
        difference = self._fit.effects[at] - self._fit.effects[against]
        sessions = margin_of_sessions(earlier)
        known = len(earlier) if sessions else 0
        return Ratio.of(difference, max(self._margins[at][against], sessions), processes, known)

    def shift(self, one: int) -> float:
        """The effect of a candidate less the mean of the logarithms of its times. It is 0 for one that was in all
        generations; for another one it corrects for those that it missed."""
        if one not in self._members or not self._fit.blocked:
            return 0.0
        return round(self._fit.effects[self._members.index(one)] - fmean(self._samples[one]), 9)

    @property
    def between_generations(self) -> float:
        """The time of the slowest generation over that of the quickest; 1 where they are no part of the model."""
        return math.exp(self._fit.between)

    def itself(self, one: int) -> Ratio | None:
        """A candidate against itself: every second process over the others, with the spread of the family; `None` below
        four processes. It is no part of the family's statements."""
        if len(self._samples[one]) < 4:
            return None
        at = self._members.index(one)
        sample = self._fit.without_generations[at]
        halves = sample[1::2], sample[::2]
        spread, degrees = self._spreads[at]
        width = math.sqrt(spread * sum(1 / len(half) for half in halves))
        margin = 0.0 if width == 0.0 else student(self._level, degrees) * width
        return Ratio.of(fmean(halves[0]) - fmean(halves[1]), margin, (len(halves[0]), len(halves[1])))

    @cached_property
    def _fit(self) -> Fit:
        return fit([self._samples[i] for i in self._members], self._generations)

    @cached_property
    def _spreads(self) -> list[tuple[float, float]]:
        """Of each member the variance of a process, and its degrees of freedom."""
        own = self._fit.spreads
        if len(own) <= 2 and not self._fit.blocked:
            return own
        degrees = math.fsum(d for _, d in own)
        most = _WILD**2 * median([v for v, d in own if d >= _OWN] or [math.inf])
        pooled = math.fsum(min(v, most) * d for v, d in own) / degrees
        return [(max(v, pooled) if d >= _OWN else pooled, degrees) for v, d in own]

    @cached_property
    def _margins(self) -> list[list[float]]:
        """Half the width of the interval of each difference of two members."""
        with put_off():
            import numpy as np
            from scipy import stats
        means = np.array(self._fit.effects)
        covariance = self._fit.covariance([v for v, _ in self._spreads])
        parts = np.diag(covariance)
        degrees = np.array([d for _, d in self._spreads], float)
        total = np.maximum(parts[:, None] + parts - 2 * covariance, 0.0)
        with np.errstate(all="ignore"):
            # Welch and Satterthwaite; the degrees of freedom of a pooled spread count once, not twice.
            joint = total**2 / ((parts**2 / degrees)[:, None] + parts**2 / degrees)
            pooled = len(means) > 2 or self._fit.blocked
            joint = np.full_like(joint, degrees[0]) if pooled else joint
            distances = np.abs(means[:, None] - means) / np.sqrt(total)
            p = np.where(means[:, None] == means, 1.0, 2 * stats.t.sf(distances, joint))
            critical = np.array(_criticals(p.tolist(), self._level))
            margins = np.where(total > 0, stats.t.isf(critical / 2, joint) * np.sqrt(total), 0.0)
        return [list(map(float, line)) for line in margins]


def ratio(
    medians: Sequence[float],
    baseline: Sequence[float],
    *,
    earlier: Sequence[float] = (),
    generations: Sequence[Sequence[int]] = (),
    level: float = LEVEL,
) -> Ratio:
    """The ratio of the time of a candidate to that of a baseline, where no others are compared: a family of two."""
    return Family([medians, baseline], level, generations).ratio(0, 1, earlier)


def _criticals(p: Sequence[Sequence[float]], level: float) -> list[list[float]]:
    """The critical p-value below which each two are told apart, from the p-values of all differences.

    It is that of the largest set of candidates with these two in which no other two are told apart by it.
    """
    count = len(p)
    levels = _levels(count, level)
    found = [[levels[0]] * count for _ in p]
    for size in range(count, 2, -1):
        near = [sum(1 << j for j in range(count) if j != i and p[i][j] >= levels[size - 2]) for i in range(count)]
        for i in range(count):
            for j in range(i):
                if found[i][j] == levels[0] and _clique(near, near[i] & near[j], size - 2):
                    found[i][j] = found[j][i] = levels[size - 2]
    return found


def _clique(near: Sequence[int], among: int, size: int) -> bool:
    """Whether so many of those ``among`` (bits) are all ``near`` each other."""
    if size <= 0:
        return True
    while among.bit_count() >= size:
        first = among.bit_length() - 1
        among &= ~(1 << first)
        if _clique(near, among & near[first], size - 1):
            return True
    return False


@lru_cache
def _levels(count: int, level: float) -> list[float]:
    """For sets of 2, 3... of ``count`` candidates: the critical p-value of the difference of two, tested alone, below
    which the set is unequal. It is that of the studentized range with the spread known; the difference itself is tested
    by Student's distribution with its own degrees of freedom."""
    with put_off():
        from scipy import stats
    found = [1 - level]
    for size in range(2, count + 1):
        alpha = 1 - level ** (1.0 if size >= count - 1 else size / count)
        reach = stats.studentized_range.isf(alpha, size, math.inf) / math.sqrt(2) if size > 2 else None
        found.append(min(found[-1], alpha if reach is None else 2 * float(stats.norm.sf(reach))))
    return found[1:] or found
