"""Effort goes where the question is open: who gets another process, and who none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from test_sessions import SMALL, TASK, Here, answer, measured

from xbackend.analysis.family import ratio
from xbackend.analysis.statistics import LEVEL
from xbackend.measure import question
from xbackend.measure.candidates import Candidate
from xbackend.measure.plan import Extent
from xbackend.measure.question import unanswered
from xbackend.measure.runner import Session

NEAR, APART, EQUAL = [1.0, 1.03, 0.97], [1.4, 1.41, 1.39], [1.0, 1.001, 0.999]


class Known(Candidate):
    """A candidate whose processes took so many seconds."""

    def __init__(self, name: str, times: Sequence[float], devices: int = 1, revision: str = "") -> None:
        said = {**TASK.parameters, "revision": revision} if revision else TASK.parameters  # as `gate --rev` has it
        super().__init__(replace(TASK, revision=revision, parameters=said), name, devices)
        self.processes = list(times)  # type: ignore[arg-type]

    @property
    def times(self) -> list[float]:
        return self.processes  # type: ignore[return-value]


def wanted(*candidates: Known, baseline: str | None = None, most: int = 10) -> list[str]:
    return [f"{c.backend}{c.devices}{c.task.revision}" for c in unanswered(candidates, baseline, most)]


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
    """Nothing is told apart before the spread is known, by three processes of two candidates."""
    once = [Known("a", [1.0]), Known("b", [1.8]), Known("c", [5.0])]
    assert wanted(*once) == ["a1", "b1"]
    assert wanted(Known("a", [1.0] * 2), Known("b", [1.8] * 2), once[2]) == ["a1", "b1"]
    assert wanted(Known("a", EQUAL), Known("b", [1.8, 1.81, 1.79]), once[2]) == []
    assert wanted(Known("a", [1.0]), Known("b", [9.0])) == ["a1", "b1"]  # each of two needs its own
    assert wanted(Known("a", [1.0])) == ["a1"] and wanted(Known("a", EQUAL)) == []


def test_devices_and_revisions_are_compared_with_their_own_first() -> None:
    fast, slow = [Known("a", EQUAL), Known("a", [0.98, 1.05, 1.03], 2)], [Known("b", APART), Known("b", EQUAL, 2)]
    assert wanted(*fast, *slow) == ["a1", "a2"]
    assert wanted(Known("a", NEAR, revision="1"), Known("a", NEAR, revision="2")) == ["a11", "a12"]


def wrong(sessions: int) -> int:
    """In how many sessions of two identical candidates, which stop where nothing is open, they are told apart."""
    generator, found = np.random.default_rng(31), 0
    for _ in range(sessions):
        two = [Known("a", []), Known("b", [])]
        for _ in range(10):
            for candidate in two:
                candidate.times.append(float(np.exp(generator.normal(0.0, 0.02))))
            if not wanted(*two):
                break
        found += ratio(two[0].times, two[1].times).shown
    return found


def test_who_stops_where_something_is_shown_is_seldom_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 5 %, with what 400 sessions may differ by; those that stop by their own level are wrong more often."""
    careful = wrong(400)
    assert careful <= stats.binom(400, 0.05).ppf(0.99)
    monkeypatch.setattr(question, "STOP", LEVEL)
    assert wrong(400) > careful + 5


@pytest.mark.tier("standard")
def test_two_revisions_take_turns() -> None:
    """Their visits lie in the same seconds, whatever the order."""
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
    assert done.stopped == f"nothing that is compared is open any more, after {done.schedule.generations} processes"
