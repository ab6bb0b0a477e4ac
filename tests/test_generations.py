"""Estimates from candidates and generations, against SciPy's least squares and against plain means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import measured
from store_helpers import results

from xbackend.analysis import rows
from xbackend.analysis.comparison import comparisons
from xbackend.analysis.family import Family
from xbackend.analysis.generations import fit
from xbackend.analysis.statistics import Verdict
from xbackend.report.drawn.axes import errors


def made(candidates: int, generations: int, seed: int, slow: float) -> list[list[float]]:
    """Logarithms: candidate i has i, generation j adds a random number, and noise of 1 %."""
    random = np.random.default_rng(seed)
    added = random.normal(0.0, slow, generations)
    return [list(map(float, i + added + random.normal(0.0, 0.01, generations))) for i in range(candidates)]


@given(st.integers(2, 6), st.integers(3, 7), st.integers(0, 999))
def test_where_all_are_in_all_generations_a_candidate_is_its_mean(candidates: int, generations: int, seed: int) -> None:
    there = made(candidates, generations, seed, slow=0.5)
    found = fit(there, [list(range(generations))] * candidates)
    assert found.blocked is ((candidates - 1) * (generations - 1) >= 4)
    assert found.effects == pytest.approx([np.mean(one) for one in there], abs=1e-9)
    degrees = math.fsum(d for _, d in found.spreads)
    assert degrees == pytest.approx((candidates - found.blocked) * (generations - 1))


@given(st.integers(0, 999), st.sets(st.integers(1, 5), min_size=1))
def test_one_that_was_in_some_is_compared_by_those_that_were_in_both(seed: int, left_out: set[int]) -> None:
    """Though generations differ far more than candidates, and its mean covers other generations."""
    there, numbers = made(4, 6, seed, slow=5.0), [list(range(6)) for _ in range(4)]
    numbers[3] = [j for j in range(6) if j not in left_out]
    there[3] = [there[3][j] for j in numbers[3]]
    found = fit(there, numbers)
    assert found.blocked and found.effects[3] - found.effects[0] == pytest.approx(3.0, abs=0.08)
    family = Family([[math.exp(x) for x in one] for one in there], generations=numbers)
    assert math.log(family.ratio(3, 0).value) == pytest.approx(found.effects[3] - found.effects[0], abs=1e-9)
    assert family.shift(0) == 0.0 and family.shift(3) == pytest.approx(found.effects[3] - np.mean(there[3]), abs=1e-8)
    without = Family([[math.exp(x) for x in one] for one in there])
    assert without.ratio(1, 0).verdict is Verdict.NOT_TOLD_APART and family.ratio(1, 0).verdict is Verdict.SLOWER


def test_generations_do_not_count_where_they_cannot() -> None:
    there = made(3, 4, 0, slow=0.1)
    assert fit(there, [[0, 1, 2, 3]] * 3).blocked
    apart = fit(there, [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]])  # the third shares no generation with the others
    few = fit([one[:2] for one in there], [[0, 1]] * 3)  # two degrees of freedom
    unknown = fit(there, [[], [], []])
    assert not (apart.blocked or few.blocked or unknown.blocked or fit(there, [[0] * 4] * 3).blocked)
    assert apart.effects == [pytest.approx(np.mean(one)) for one in there]


def test_a_time_lies_in_its_interval_whatever_the_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was in slow generations alone has the time, and the interval, of all generations."""
    monkeypatch.setattr(Family, "shift", lambda *_: -0.7)
    there = results(measured("a", [2.0, 2.02, 1.98]))
    (found,), (row,) = rows.rows(there), comparisons(there)[0].rows
    low, high, time = found.seconds_low, found.seconds_high, found.seconds
    assert None not in (low, high, time) and low < time < high < 1.98
    assert errors([row]) == [[pytest.approx(time - low)], [pytest.approx(high - time)]]


def test_what_is_equal_is_equal_to_the_last_bit() -> None:
    found = Family([[0.1, 0.2, 0.3]] * 4, generations=[[0, 1, 2]] * 4).ratio(0, 3)
    assert (found.value, found.low, found.high, found.verdict) == (1.0, 1.0, 1.0, Verdict.EQUAL)


def test_the_covariance_is_that_of_least_squares() -> None:
    """By simulation: candidates in different generations, each with its own spread."""
    random, numbers, spreads = np.random.default_rng(5), [[0, 1, 2, 3], [0, 1, 2, 3], [0, 3], [0]], [0.1, 0.2, 0.3, 0.1]
    drawn = [
        [list(map(float, random.normal(0.0, spread, len(own)))) for own, spread in zip(numbers, spreads, strict=True)]
        for _ in range(4000)
    ]
    effects = np.array([fit(one, numbers).effects for one in drawn])
    expected = fit(drawn[0], numbers).covariance([spread**2 for spread in spreads])
    np.testing.assert_allclose(np.cov(effects.T), expected, atol=0.1 * expected.max())
