"""After how many calls a slower compiler has paid for itself, with an interval.

With n calls a candidate takes C + n t seconds: C is the import of the framework, trace, lower and the first call of a
process that compiled with an empty cache on disk (``from_cache``: of one that did not), t is each later call. One that
compiles more slowly, and is shown to be faster once compiled (`Comparison.ratio` says so), has overtaken another after
n = (C_a - C_b) / (t_b - t_a) calls, of the means over processes. The interval holds the n at which the two totals are
not shown to differ (Welch's test on the totals of the processes), as Fieller's interval of a quotient does: Fieller,
Some Problems in Interval Estimation, Journal of the Royal Statistical Society B 16 (1954) 175. So C and t of one
process stay together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from xbackend.analysis.comparison import Comparison, Row, compilation
from xbackend.analysis.statistics import FEWEST, Verdict, difference

_STEPS = 24  # halvings: finer than the digits that are shown
_MOST = 1e15  # calls, after which nobody waits

Costs = Sequence[tuple[float, float]]  # of each process: seconds to its first result, and of a call


@dataclass(frozen=True)
class PayOff:
    """A row has overtaken another one, which has its first result earlier, after so many ``calls``."""

    calls: float
    low: float  #: the interval: nan below `FEWEST` processes a side
    high: float  #: infinite where no number of calls shows it


def first_result(row: Row, from_cache: bool = False) -> float | None:
    """The mean seconds of import, trace, lower and first call together, over the processes that compiled anew or, with
    ``from_cache``, those that did not; `None` where none is known."""
    known = costs(row, from_cache)
    return fmean(seconds for seconds, _ in known) if known else None


def total(row: Row, calls: int) -> float | None:
    """The mean seconds to the first result and through so many calls after it; `None` where one is not known."""
    first = first_result(row)
    return None if first is None or row.time is None else first + calls * row.time


def quickest(comparison: Comparison) -> Row | None:
    """The row with a time that has its first result first; `None` where a row was not compiled anew."""
    if any(row.from_cache and not row.compilations for row in comparison.ranked):
        return None
    known = [(seconds, row) for row in comparison.ranked if (seconds := first_result(row)) is not None]
    return min(known, key=lambda one: one[0])[1] if known else None


def pay_off(row: Row, quick: Row, comparison: Comparison, from_cache: bool = False) -> PayOff | None:
    """The number of calls after which a row of a comparison has overtaken another one; `None` where it is not shown to
    be faster once compiled. With ``from_cache`` both compile the program for the second time."""
    against = comparison.ratio(row, quick)
    ours, theirs = (costs(one, from_cache and bool(one.from_cache)) for one in (row, quick))
    if against is None or against.verdict is not Verdict.FASTER or not (ours and theirs):
        return None
    calls = estimate(ours, theirs)
    return None if calls is None else PayOff(calls, *interval(ours, theirs, calls))


def estimate(ours: Costs, theirs: Costs) -> float | None:
    """The number of calls after which the mean totals are equal; `None` where ours gain nothing."""
    gain = fmean(t for _, t in theirs) - fmean(t for _, t in ours)
    if gain <= 0:
        return None
    return max(0.0, (fmean(c for c, _ in ours) - fmean(c for c, _ in theirs)) / gain)


def costs(row: Row, from_cache: bool = False) -> Costs:
    """The costs of each process that counts and compiled something, anew or ``from_cache``."""
    own = [p for p in row.processes if (p.cache == "warm") is from_cache]
    return [(seconds + (p.phases.framework_import or 0.0), p.time) for p in own for seconds in compilation([p])]


def interval(ours: Costs, theirs: Costs, calls: float) -> tuple[float, float]:
    """The numbers of calls around this one at which the totals are not shown to differ."""
    if min(len(ours), len(theirs)) < FEWEST:
        return math.nan, math.nan

    def apart(n: float) -> int:
        """1 where ours are shown to take longer in n calls, -1 where shorter, 0 where neither is shown."""
        value, margin = difference([c + n * t for c, t in ours], [c + n * t for c, t in theirs])
        return 0 if abs(value) <= margin else 1 if value > 0 else -1

    low = 0.0 if apart(0.0) <= 0 else _edge(lambda n: apart(n) > 0, 0.0, calls)
    beyond = max(2.0 * calls, 1.0)
    while apart(beyond) >= 0:
        beyond *= 4.0
        if beyond > _MOST:
            return low, math.inf
    return low, _edge(lambda n: apart(n) >= 0, calls, beyond)


def _edge(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Where between the two something ceases to hold."""
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return (inside + outside) / 2
