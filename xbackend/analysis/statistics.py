"""Which is faster, by how much and how sure: computed from the medians of fresh processes, and of nothing smaller.

    floor = noise_floor(run.pairs, candidate).factor
    ratio([p.median for p in candidate.processes], [p.median for p in baseline.processes], floor=floor)

`ratio` alone says whether two candidates differ; all that shows a verdict has it from there.

Seconds are compared on the logarithmic scale, so that a ratio and its inverse are judged alike. The interval is
Student's, with Welch's degrees of freedom for two sides. With the spread measured between processes (4.9 %), percentile
and BCa bootstrap intervals of nominally 95 % hold the truth in 80 % of cases at 3 processes a side, 86 % at 5, 91 % at
10 (Tim C. Hesterberg, *What Teachers Should Know about the Bootstrap*, arXiv:1411.5279, shows why), expanded
percentiles in 90, 94 and 94 %; these in 97, 95.5 and 95 %.

A time is the geometric mean of the processes' medians, and not their median: with processes that come in two kinds, an
interval of the median calls 11 % of identical pairs different at 5 processes a side, and with any it finds fewer true
differences (of 10 %: 60 and not 73 % of them). ``tests/test_statistics.py`` simulates it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev, variance
from typing import TYPE_CHECKING

from xbackend.errors import ArgumentError
from xbackend.interrupts import put_off

if TYPE_CHECKING:
    from xbackend.results.schema import Measurement, Pair, Results

LEVEL = 0.95  # of every interval that is shown
LEVEL_OF_SAME = 0.99  # at which the halves of an A/A pair are called different: every session has some
FEWEST_SESSIONS = 5  # earlier runs: with fewer, nothing is known of how sessions differ
FEWEST = 3  # processes a side: with two, nothing is known of how they spread
SHORTEST, LONGEST = 1e-12, 1e12  # seconds that can be of this world; others are of a damaged file
LEVEL_OF_DRIFT = 0.99  # every session is asked, and few are to be warned in vain
DRIFT = 3.0  # percent over the session: below, the interleaving evens it out


class Verdict(StrEnum):
    """What a ratio shows."""

    FASTER = "faster"
    SLOWER = "slower"
    AMBIGUOUS = "ambiguous"
    NO_DIFFERENCE = "no difference shown"
    UNKNOWN = "too few processes"


@dataclass(frozen=True)
class Ratio:
    """The time of a candidate over that of a baseline: below 1 the candidate is faster.

    ``value`` is the ratio of the geometric means, ``low`` and ``high`` its interval at ``level``, ``floor`` the factor
    within which nothing is called a difference, ``processes`` how many the candidate and the baseline had.
    ``sessions`` is how many earlier sessions show how sessions differ: 0 where there are too few, or where both sides
    are of one session. Below `FEWEST` processes a side ``low`` and ``high`` are nan and the verdict is ``UNKNOWN``;
    ``value`` is nan too where seconds cannot be divided.
    """

    value: float
    low: float
    high: float
    level: float
    floor: float
    verdict: Verdict
    processes: tuple[int, int]
    sessions: int = 0

    @property
    def shown(self) -> bool:
        """Whether it is shown that the two differ."""
        return self.verdict in (Verdict.FASTER, Verdict.SLOWER)

    @property
    def smallest(self) -> float:
        """The smallest ratio above 1 (or its inverse) that would have been called a difference, with this spread; nan
        without an interval."""
        if not math.isfinite(self.low):
            return math.nan
        return max(self.floor, self.high / self.value)


def ratio(
    medians: Sequence[float],
    baseline: Sequence[float],
    *,
    floor: float = 1.0,
    level: float = LEVEL,
    earlier: Sequence[float] = (),
) -> Ratio:
    """The ratio of the time of a candidate to that of a baseline, each given as seconds: one median a process.

    The verdict: ``NO_DIFFERENCE`` where the ratio lies within ``[1 / floor, floor]``; else ``AMBIGUOUS`` where its
    interval holds 1; else ``FASTER`` or ``SLOWER``. The same numbers give the same result.

    Where the two sides are of two sessions, ``earlier`` are the candidate's times in earlier ones. Sessions differ by
    more than the processes of one; with `FEWEST_SESSIONS` or more the interval is at least as wide as they show.

    Raises:
        ArgumentError: ``floor`` is below 1 or ``level`` is not between 0 and 1.
    """
    if not 1.0 <= floor < math.inf:
        raise ArgumentError(f"floor={floor!r}: a factor from 1 up is needed, 1.02 for 2 %")
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"level={level!r}: a number between 0 and 1 is needed, 0.95 for 95 %")
    processes = (len(medians), len(baseline))
    ours, theirs = _logarithms(medians), _logarithms(baseline)
    if not ours or not theirs:
        return Ratio(math.nan, math.nan, math.nan, level, floor, Verdict.UNKNOWN, processes)
    difference = fmean(ours) - fmean(theirs)
    if min(processes) < FEWEST:
        return Ratio(math.exp(difference), math.nan, math.nan, level, floor, Verdict.UNKNOWN, processes)
    sessions = _logarithms(earlier)
    known = len(sessions) >= FEWEST_SESSIONS
    margin = max(_margin((ours, theirs), level), _margin_of_sessions(sessions, level) if known else 0.0)
    return Ratio(
        value=math.exp(difference),
        low=_exp(difference - margin),
        high=_exp(difference + margin),
        level=level,
        floor=floor,
        verdict=_verdict(difference, margin, math.log(floor)),
        processes=processes,
        sessions=len(sessions) if known else 0,
    )


def time_of(medians: Sequence[float]) -> float:
    """The time of a candidate, in seconds: the geometric mean of its processes' medians; nan where it has none.

    A ratio is that of two of these.
    """
    logarithms = _logarithms(medians)
    if not logarithms:
        return math.nan
    return medians[0] if min(medians) == max(medians) else math.exp(fmean(logarithms))


def _verdict(difference: float, margin: float, floor: float) -> Verdict:
    """All three as logarithms."""
    if floor > 0 and abs(difference) <= floor:
        return Verdict.NO_DIFFERENCE
    if abs(difference) <= margin:
        return Verdict.AMBIGUOUS
    return Verdict.FASTER if difference < 0 else Verdict.SLOWER


def interval(medians: Sequence[float]) -> tuple[float, float]:
    """The interval at `LEVEL` of the geometric mean of one candidate's seconds; (nan, nan) below `FEWEST` processes.

    It is for error bars. Two of them that overlap or do not are no verdict: that is `ratio`.
    """
    logarithms = _logarithms(medians)
    if len(logarithms) < FEWEST:
        return math.nan, math.nan
    middle, margin = fmean(logarithms), _margin((logarithms,), LEVEL)
    return _exp(middle - margin), _exp(middle + margin)


def difference(first: Sequence[float], second: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """By how much the mean of the first is above that of the second, and half the width of its interval (Welch's); nan
    below `FEWEST` in one of them."""
    value = fmean(first) - fmean(second)
    return value, _margin((first, second), level) if min(len(first), len(second)) >= FEWEST else math.nan


def half_width(medians: Sequence[float]) -> float:
    """Half the width of `interval` as a part of the time: 0.02 is 2 %. Infinite below `FEWEST` processes."""
    logarithms = _logarithms(medians)
    return math.expm1(min(_margin((logarithms,), LEVEL), 700.0)) if len(logarithms) >= FEWEST else math.inf


@dataclass(frozen=True)
class Floor:
    """The noise floor of comparisons: the ratio, from 1 up, by which a candidate typically differs from itself.

    ``low`` and ``high`` are its interval at `LEVEL`, which says how well it is known, from how many ``processes``.
    ``observed``: two equal halves were shown to differ, by ``factor``. Without processes it is not known: 1 and nan.
    """

    factor: float = 1.0
    low: float = math.nan
    high: float = math.nan
    processes: int = 0
    observed: bool = False


def noise_floor(pairs: Iterable[Pair], like: Measurement | None = None) -> Floor:
    """The noise floor of comparisons of measurements ``like`` this one, from the A/A pairs of a run.

    One division of equal processes into halves is a draw: the floor is the root mean square over all divisions, which
    follows from the spread of all processes of the pairs. Where two halves are shown to differ it is what they differ
    by, if that is more. Pairs with the workload and parameters of ``like`` count, as small sizes are noisier than large
    ones; where there are none of them, the largest floor of the run does.
    """
    from xbackend.results.schema import key_of

    by_key: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        if _logarithms(pair.first) and _logarithms(pair.second):
            by_key.setdefault((pair.workload, key_of(pair.parameters)), []).append(pair)
    own = by_key.get((like.workload, key_of(like.parameters))) if like is not None else None
    floors = [_floor(own)] if own else [_floor(some) for some in by_key.values()]
    return max(floors, key=lambda floor: floor.factor, default=Floor())


def _floor(pairs: Sequence[Pair]) -> Floor:
    """The floor of pairs of one workload with the same parameters, which all have seconds."""
    with put_off():
        from scipy import stats

    samples: dict[tuple[str, str, int], list[float]] = {}
    for pair in pairs:
        both = samples.setdefault((pair.backend, pair.environment, pair.devices), [])
        both += _logarithms([*pair.first, *pair.second])
    degrees = sum(len(sample) - 1 for sample in samples.values())
    squares = math.fsum(value**2 for sample in samples.values() for value in _centred(sample))
    parts = fmean(1 / len(pair.first) + 1 / len(pair.second) for pair in pairs)
    spread = math.sqrt(squares / degrees * parts)
    low, high = (spread * math.sqrt(degrees / stats.chi2.ppf(q, degrees)) for q in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    processes = sum(map(len, samples.values()))
    shown = [same for pair in pairs if (same := differs_from_itself(pair)) is not None]
    largest = max((abs(math.log(same.value)) for same in shown), default=0.0)
    if largest > spread:
        return Floor(_exp(largest), _exp(min(low, largest)), _exp(max(high, largest)), processes, observed=True)
    return Floor(_exp(spread), _exp(low), _exp(high), processes)


def differs_from_itself(pair: Pair) -> Ratio | None:
    """The ratio of the halves of an A/A pair where they are shown to differ, at `LEVEL_OF_SAME`; `None` where not."""
    same = ratio(pair.second, pair.first, level=LEVEL_OF_SAME)
    return same if same.shown else None


def _logarithms(seconds: Sequence[float]) -> list[float]:
    """The logarithms of seconds; nothing if any of them cannot be a duration."""
    return [math.log(s) for s in seconds] if all(SHORTEST < s < LONGEST for s in seconds) else []


def _exp(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < 700 else math.inf


def _margin(samples: Sequence[Sequence[float]], level: float) -> float:
    """Half the width of the interval of a mean, or of the difference of two means of independent samples."""
    variances = [variance(sample) / len(sample) for sample in samples]
    total = sum(variances)
    if total == 0.0:
        return 0.0
    # Welch and Satterthwaite; n - 1 for one sample.
    degrees = total**2 / sum(v**2 / (len(s) - 1) for v, s in zip(variances, samples, strict=True))
    return _student(level, degrees) * math.sqrt(total)


def _margin_of_sessions(logarithms: Sequence[float], level: float) -> float:
    """Half the width of the interval of the difference of two sessions, of which earlier ones had these times."""
    return _student(level, len(logarithms) - 1) * stdev(logarithms) * math.sqrt(2)


def _student(level: float, degrees: float) -> float:
    """Within so many standard errors lies a part ``level`` of Student's distribution."""
    with put_off():
        from scipy import stats

    return float(stats.t.ppf((1 + level) / 2, degrees))


@dataclass(frozen=True)
class Drift:
    """By how many percent the machine got slower from the first process of a session to the last (faster: below 0).

    ``low`` and ``high`` are its interval at `LEVEL_OF_DRIFT`; ``warning`` says so and what to do, and is empty where
    the drift is small or not shown.
    """

    percent: float
    low: float
    high: float
    warning: str


def drift(results: Results) -> Drift | None:
    """The trend over the session; `None` where there are too few processes to see one.

    A least-squares line through the logarithms of the medians against the times when their processes started, each
    candidate taken relative to its own mean. Candidates that shared a process are one point.
    """
    groups = [points for points in _by_process(results.measurements) if len(points) > 1]
    times = [t for points in groups for t, _ in points]
    degrees = len(times) - len(groups) - 1
    if degrees < FEWEST or max(times) == min(times):
        return None
    first, span = min(times), max(times) - min(times)
    x: list[float] = []
    y: list[float] = []
    for points in groups:
        x += _centred([(t - first) / span for t, _ in points])
        y += _centred([value for _, value in points])
    across = math.fsum(a * a for a in x)
    if across == 0.0:
        return None
    slope = math.fsum(a * b for a, b in zip(x, y, strict=True)) / across
    residual = math.fsum((b - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    margin = _student(LEVEL_OF_DRIFT, degrees) * math.sqrt(residual / degrees / across)
    percent, low, high = (100 * (_exp(s) - 1) for s in (slope, slope - margin, slope + margin))
    warning = ""
    if abs(percent) >= DRIFT and abs(slope) > margin:
        warning = (
            f"the machine got {abs(percent):.0f} % {'slower' if slope > 0 else 'faster'} over the session: let it come "
            "to rest (temperature, other processes) and measure again; the order was shuffled, so that all met it alike"
        )
    return Drift(percent, low, high, warning)


def _by_process(measurements: Iterable[Measurement]) -> list[list[tuple[float, float]]]:
    """For each backend with devices: when its processes started, and their medians relative to the candidates' own."""
    groups: dict[tuple[str, int, str], dict[float, list[float]]] = {}
    for m in measurements:
        logarithms = _logarithms(m.medians)
        if len(logarithms) == len(m.counting) > 0:
            points = groups.setdefault((m.backend, m.devices, m.environment), {})
            for process, value in zip(m.counting, _centred(logarithms), strict=True):
                points.setdefault(process.started, []).append(value)
    return [[(started, fmean(values)) for started, values in points.items()] for points in groups.values()]


def _centred(values: Sequence[float]) -> list[float]:
    middle = fmean(values)
    return [value - middle for value in values]
