"""Effort goes to open questions: which candidates get another process, and which get none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from test_sessions import CASE, SMALL, Here, answer, measured

from xbackend.analysis.comparison import generations
from xbackend.analysis.family import Family
from xbackend.analysis.statistics import LEVEL, LOOKED
from xbackend.measure import question
from xbackend.measure.candidates import Candidate
from xbackend.measure.plan import Extent
from xbackend.measure.question import STOP, unanswered
from xbackend.measure.runner import Session
from xbackend.measure.schedule import Schedule

NEAR, APART, EQUAL = [1.0, 1.03, 0.97], [1.4, 1.41, 1.39], [1.0, 1.001, 0.999]


class Took(float):
    """A process that took so many seconds."""

    generation: int | None = None
    cache = ""


class Known(Candidate):
    """A candidate whose processes took so many seconds."""

    def __init__(self, name: str, times: Sequence[float], devices: int = 1, revision: str = "") -> None:
        said = {**CASE.parameters, "revision": revision} if revision else CASE.parameters  # as `gate --rev` has it
        super().__init__(replace(CASE, revision=revision, parameters=said), name, devices)
        self.processes = list(map(Took, times))  # type: ignore[arg-type]

    @property
    def times(self) -> list[float]:
        return self.processes  # type: ignore[return-value]


def wanted(*candidates: Known, baseline: str | None = None, most: int = 10) -> list[str]:
    return [f"{c.backend}{c.devices}{c.case.revision}" for c in unanswered(candidates, baseline, most)]


def test_who_is_far_behind_or_told_apart_gets_no_more_and_who_is_near_does() -> None:
    there = [Known("a", NEAR), Known("b", [1.01, 1.04, 0.98]), Known("c", APART), Known("d", [9.0])]
    assert wanted(*there) == ["a1", "b1"]
    assert wanted(*there, most=3) == []
    assert wanted(*there, Known("e", [1.1])) == ["a1", "b1", "e1"]


def test_equals_get_no_more() -> None:
    assert wanted(Known("a", EQUAL * 3), Known("b", EQUAL * 3)) == []


def test_a_named_baseline_is_compared_with_all() -> None:
    there = [Known("a", EQUAL), Known("b", APART), Known("c", [1.41, 1.49, 1.36])]
    assert wanted(*there) == []
    assert wanted(*there, baseline="b") == ["b1", "c1"]


def test_the_first_processes_are_followed_by_those_of_the_nearest() -> None:
    """Two candidates need three processes each to show the spread; before, nothing is told apart."""
    once = [Known("a", [1.0]), Known("b", [1.8]), Known("c", [5.0])]
    assert wanted(*once) == ["a1", "b1"]
    assert wanted(Known("a", [1.0] * 2), Known("b", [1.8] * 2), once[2]) == ["a1", "b1"]
    assert wanted(Known("a", EQUAL), Known("b", [1.8, 1.81, 1.79]), once[2]) == []
    assert wanted(Known("a", [1.0]), Known("b", [9.0])) == ["a1", "b1"]  # each of the two needs more
    assert wanted(Known("a", [1.0])) == ["a1"] and wanted(Known("a", EQUAL)) == []


def test_devices_and_revisions_are_compared_with_their_own_first() -> None:
    fast, slow = [Known("a", EQUAL), Known("a", [0.98, 1.05, 1.03], 2)], [Known("b", APART), Known("b", EQUAL, 2)]
    assert wanted(*fast, *slow) == ["a1", "a2"]
    assert wanted(Known("a", NEAR, revision="1"), Known("a", NEAR, revision="2")) == ["a11", "a12"]


def shown(sessions: int, factors: Sequence[float], common: float = 0.0, level: float = LOOKED) -> tuple[int, int]:
    """The number of sessions that tell the first two candidates apart, and their number of processes. A session stops
    when nothing is open. Times have these ``factors``; generations differ by ``common``."""
    generator, found, processes = np.random.default_rng(31), 0, 0
    for _ in range(sessions):
        asked = there = [Known(str(i), []) for i in range(len(factors))]
        for generation in range(10):
            slow = generator.normal(0.0, common) if common else 0.0
            for candidate in asked:
                factor = factors[there.index(candidate)]
                took = Took(factor * np.exp(slow + generator.normal(0.0, 0.02)))
                took.generation = generation if common else None
                candidate.processes.append(took)  # type: ignore[arg-type]
            asked = [c for c in there if c in unanswered(there, None, 10)]
            if not asked:
                break
        family = Family([c.times for c in there], level, [generations(c.processes) for c in there])
        found, processes = found + family.ratio(0, 1).shown, processes + sum(len(c.processes) for c in there)
    return found, processes


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("common", [0.0, 0.1])
def test_who_stops_where_something_is_shown_is_seldom_wrong(common: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 5 %, within the chance of 400 sessions. Stopping at their own level is wrong more often."""
    careful, _ = shown(400, [1.0, 1.0], common)
    assert careful <= stats.binom(400, 0.05).ppf(0.99)
    monkeypatch.setattr(question, "STOP", LEVEL)
    assert shown(400, [1.0, 1.0], common, LEVEL)[0] > careful + 5


@pytest.mark.tier("standard")
def test_what_is_slow_for_all_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference of 10 % is found though the same program differs by 10 % between generations. Planted: without
    generations it is found in few sessions, by more processes."""
    factors = [1.0, 1.1, 2.0, 3.0, 4.0, 5.0]
    found, processes = shown(20, factors, 0.1)
    assert found >= 19
    monkeypatch.setattr(question, "generations", lambda _: [])
    monkeypatch.setattr("test_question.generations", lambda _: [])
    fewer, more = shown(20, factors, 0.1)
    assert fewer < 12 and more > processes


def test_of_several_tasks_each_is_looked_at_more_carefully(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the report's family of all tasks."""
    levels: list[float] = []
    monkeypatch.setattr(question, "Family", lambda times, level, *rest: levels.append(level) or Family(times, level))
    there = [Known("a", NEAR), Known("b", APART), Known("a", NEAR), Known("b", APART)]
    for candidate in there[2:]:
        candidate.case = replace(CASE, parameters={**CASE.parameters, "size": 2})
    assert unanswered(there, None, 10) == [] and levels[-2:] == [STOP**0.5] * 2


def test_of_each_task_five_have_a_second_process_however_late_it_is() -> None:
    """So the spread of all is known: two cases of six candidates, in a session without time left."""
    cases = [replace(CASE, parameters={**CASE.parameters, "size": size}) for size in (1, 2)]
    there = [Known(str(i), [1.0 + i / 100]) for i in range(12)]
    for i, candidate in enumerate(there):
        candidate.case = cases[i % 2]
    late = Schedule(there, Extent(9, seconds=-1.0, fixed=False), None, 0.0)
    late.generations = 1
    assert late.wanted() == there[:10] and late.reached() == ("", "")
    for i, candidate in enumerate(there[:10]):
        candidate.processes.append(Took(candidate.times[0] + i / 100))  # type: ignore[arg-type]
    assert late.wanted() == [] and late.reached()[0].startswith("the time given")


@pytest.mark.tier("exhaustive")
def test_two_revisions_take_turns() -> None:
    """Their visits lie in the same seconds, in any order."""
    asked: list[str] = []
    opener = Here(lambda function, job: asked.append(function.rpartition(":")[2]))
    both = [Known("numpy", [], revision=revision) for revision in ("1", "2")]
    Session(both, extent=Extent(1), threads=1, seed=0, effort=SMALL, opener=opener, wait=0).run()
    assert asked[:4] == ["prepare", "visit"] * 2 and asked[-2:] == ["finish"] * 2


@pytest.mark.tier("standard")
def test_a_session_measures_what_is_open_and_ends() -> None:
    near = iter([0.0100, 0.0101, 0.0102, 0.0103, 0.0101, 0.0100] * 3)
    opener = Here(
        numpy=lambda _: answer(next(near)), jax=lambda _: answer(next(near)), theano=lambda _: answer(0.1),
    )  # fmt: skip
    done = measured(opener, ("numpy", "jax", "theano"), Extent(9, fixed=False))
    assert opener.opened.count("theano") == 1
    counts = {candidate.backend: len(candidate.processes) for candidate in done.candidates}
    assert counts["numpy"] == counts["jax"] == done.schedule.generations and 3 <= done.schedule.generations < 9
    assert done.stopped == f"every comparison is decided after {done.schedule.generations} processes"
