"""The number of calls after which a slower compiler pays off: its interval, and where there is none."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from report_helpers import of, whole_of

from xbackend.analysis import payoff
from xbackend.analysis.answer import answer
from xbackend.analysis.comparison import Comparison, Row, comparisons
from xbackend.analysis.statistics import difference
from xbackend.report.said import payoffs
from xbackend.results.schema import Measurement, Phases, Process, Visit


def row(backend: str, costs: list[tuple[float, float]], workload: str = "matpow") -> Measurement:
    """A measurement with, for each process, the seconds to its first result and of a call."""
    processes = [
        Process(
            order=i,
            started=float(i),
            iterations=1,
            visits=[Visit([t])],
            phases=Phases(lower=c / 2, first_call=c / 2, call=t),
        )
        for i, (c, t) in enumerate(costs)
    ]
    return Measurement(
        workload=workload, parameters={}, backend=backend, devices=1, bindings={}, status="ok", processes=processes
    )


def spread(c: float, t: float, by: float = 0.001) -> list[tuple[float, float]]:
    return [(c * (1 + by * i), t * (1 + by * i)) for i in (-2, -1, 0, 1, 2)]


def pair(ours: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> tuple[Comparison, Row, Row]:
    (comparison,) = comparisons(of(row("compiled", ours), row("numpy", theirs)))
    return comparison, comparison.rows[0], comparison.rows[1]


def test_it_pays_after_what_it_took_longer_over_what_a_call_gains() -> None:
    comparison, ours, theirs = pair(spread(5.0, 0.01), spread(0.1, 0.05))
    assert payoff.quickest(comparison) is theirs
    found = payoff.pay_off(ours, theirs, comparison)
    assert found is not None
    assert found.calls == pytest.approx(4.9 / 0.04)
    assert 0.9 * found.calls < found.low < found.calls < found.high < 1.1 * found.calls
    assert payoffs.calls(found).startswith("123 calls (")


def test_what_is_not_shown_to_be_faster_never_pays() -> None:
    comparison, ours, theirs = pair(spread(5.0, 0.05), spread(0.1, 0.05))
    assert payoff.pay_off(ours, theirs, comparison) is None
    comparison, ours, theirs = pair(spread(5.0, 0.06), spread(0.1, 0.05))
    assert payoff.pay_off(ours, theirs, comparison) is None
    assert "not shown to be faster than numpy" in whole_of(of(ours.measurement, theirs.measurement))


def test_of_a_model_of_pymc_what_is_there_first_after_a_thousand_calls_is_said() -> None:
    ways = [row("pytensor", spread(8.0, 1e-4)), row("pytensor-jax", spread(1.0, 1e-3)), row("jax", spread(0.5, 1e-3))]
    model = {"workload": "model+gradient", "parameters": {"graph": "PyMC 6.4.0, PyTensor 3.3.8"}}
    found = comparisons(of(*(replace(one, **model) for one in ways)))
    assert 'for 1000 calls "JAX" takes least (2.00 s, with import and compiling)' in answer(found)
    assert "with 1000 calls" in str(payoffs.each(found[0])) and "8.100 s" in str(payoffs.each(found[0]))
    other = comparisons(of(*ways))
    assert "1000 calls" not in answer(other) and "8.100 s" not in str(payoffs.each(other[0]))


def test_few_processes_have_no_interval() -> None:
    """Nor a verdict, without which nothing is said."""
    comparison, ours, theirs = pair(spread(5.0, 0.01)[:2], spread(0.1, 0.05)[:2])
    assert payoff.pay_off(ours, theirs, comparison) is None
    assert all(math.isnan(end) for end in payoff.interval([(5.0, 0.1)] * 2, [(1.0, 0.2)] * 5, 40.0))


def test_an_end_that_no_number_of_calls_shows_is_none() -> None:
    """The calls differ by less than their spread."""
    low, high = payoff.interval([(5.0, 0.9), (5.0, 1.0), (5.0, 1.1)], [(1.0, 1.0), (1.0, 1.1), (1.0, 1.2)], 40.0)
    assert 0 < low < 40 and math.isinf(high)
    found = payoff.PayOff(calls=40.0, low=low, high=high)
    assert payoffs.calls(found).endswith(" to any number)")


def test_what_may_not_take_longer_at_all_pays_from_the_first_call_on() -> None:
    low, _ = payoff.interval([(4.0, 0.1), (5.0, 0.1), (6.0, 0.1)], [(3.9, 0.5), (4.9, 0.5), (5.9, 0.5)], 0.25)
    assert low == 0.0


@given(st.floats(0.5, 50), st.floats(0.001, 0.1), st.floats(1.2, 20))
def test_at_the_number_of_calls_both_have_taken_as_long(compile_time: float, call: float, times: float) -> None:
    comparison, ours, theirs = pair(spread(compile_time + 0.1, call), spread(0.1, call * times))
    found = payoff.pay_off(ours, theirs, comparison)
    assert found is not None
    n = found.calls
    assert compile_time + 0.1 + n * call == pytest.approx(0.1 + n * call * times)
    for end in (found.low, found.high):
        a, b = ([c + end * t for c, t in payoff.costs(one)] for one in (ours, theirs))
        value, margin = difference(a, b)
        assert abs(value) == pytest.approx(margin, rel=0.01)


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("processes", [3, 5, 10])
@pytest.mark.parametrize("together", [False, True])
def test_the_interval_holds_the_true_number_as_often_as_it_says(processes: int, together: bool) -> None:
    """Even if a process that compiles slowly has slow calls too. Of 400 intervals of 95 % fewer than 364 hold it in one
    session of ten thousand."""
    generator = random.Random(processes)

    def drawn(c: float, t: float) -> list[tuple[float, float]]:
        found = []
        for _ in range(processes):
            common = generator.gauss(0, 0.05)
            a, b = (common, common) if together else (generator.gauss(0, 0.05), generator.gauss(0, 0.05))
            found.append((c * (1 + a), t * (1 + b)))
        return found

    true = (5.0 - 1.0) / (0.06 - 0.02)
    held = 0
    for _ in range(400):
        ours, theirs = drawn(5.0, 0.02), drawn(1.0, 0.06)
        estimate = payoff.estimate(ours, theirs)
        assert estimate is not None and estimate != true
        low, high = payoff.interval(ours, theirs, estimate)
        assert low <= estimate <= high
        held += low <= true <= high
    assert held >= 364


def test_a_narrower_interval_would_be_found() -> None:
    """The planted fault: an interval from the spread of compilation alone."""
    generator = random.Random(0)
    held = 0
    for _ in range(400):
        ours = [(5.0 * generator.gauss(1, 0.05), 0.02 * generator.gauss(1, 0.05)) for _ in range(5)]
        theirs = [(1.0 * generator.gauss(1, 0.05), 0.06 * generator.gauss(1, 0.05)) for _ in range(5)]
        gain = sum(t for _, t in theirs) / 5 - sum(t for _, t in ours) / 5
        value, margin = difference([c for c, _ in ours], [c for c, _ in theirs])
        held += abs(value / gain - 100.0) <= 0.5 * margin / gain
    assert held < 364


def test_several_workloads_have_one_table_of_it() -> None:
    rows = [row(b, spread(*c), w) for w in ("x", "y") for b, c in (("numpy", (0.1, 0.05)), ("jax", (5.0, 0.01)))]
    text = whole_of(of(*rows))
    assert "First result, calls, and when a compiler has paid for itself" in text
    assert text.count("123 calls (") >= 2
