"""Waits for a quiet machine, and repeated disturbed visits: bounded, shown, and all kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import whole_of
from store_helpers import beside, process, results, row
from test_sessions import CASE, SMALL, TINY, Answer, Here, answer

from xbackend import cli
from xbackend.analysis.disturbed import disturbed, quiet
from xbackend.cores import FOREIGN
from xbackend.errors import ArgumentError
from xbackend.measure import patience, plan, session
from xbackend.measure.candidates import Candidate
from xbackend.measure.loop import Effort
from xbackend.measure.measured import Measured
from xbackend.measure.patience import Patience
from xbackend.measure.plan import Extent
from xbackend.measure.runner import Session
from xbackend.measure.visited import Live
from xbackend.results import schema
from xbackend.results.runs import Store
from xbackend.results.schema import Visit, figure

pytestmark = pytest.mark.tier("standard")

LOUD, QUIET = 0.8, 0.1


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The cores that others use at each look; the last value repeats. In a wait only looks pass time."""
    clock, used = 0.0, [0.0]

    def look(seconds: float) -> float:
        nonlocal clock
        clock += seconds
        return used.pop(0) if len(used) > 1 else used[0]

    monkeypatch.setattr(patience, "_used", look)
    monkeypatch.setattr(patience.time, "monotonic", lambda: clock)
    yield used


def taken(
    says: Callable[[dict[str, Any]], Answer], extent: Extent | int = 3, wait: float = 100.0, **options: Any
) -> Session:
    """A finished session of one backend with these answers of processes."""
    done = Session(
        [Candidate(CASE, "numpy", 1)], extent=Extent(extent) if isinstance(extent, int) else extent, threads=1,
        seed=0, effort=SMALL, opener=Here(numpy=says), wait=wait, **options,
    )  # fmt: skip
    done.run()
    return done


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_a_quiet_machine_is_not_waited_for(others: list[float]) -> None:
    lines: list[str] = []
    patient = Patience(100.0, lines.append)
    others[:] = [FOREIGN]
    patient.wait()
    assert patient.waited == 0.0 and lines == []


def test_a_noisy_machine_is_waited_for_and_it_is_said(others: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience.cores, "count", lambda: 2)
    lines: list[str] = []
    patient = Patience(100.0, lines.append)
    others[:] = [*[1.3] * 15, 0.1]
    patient.wait()
    assert patient.waited == pytest.approx(15 * patience.AGAIN)
    words = "waiting until other processes leave the cores alone: they use 1.3 of 2 cores (at most 60 s)"
    assert lines == [words] * 2  # one line in ten seconds


def test_a_wait_ends_as_soon_as_others_use_no_more_than_is_allowed(others: list[float]) -> None:
    others[:] = [1.3, FOREIGN, 1.3]
    patient = Patience(100.0, lambda _: None)
    patient.wait()
    assert patient.waited == pytest.approx(patience.AGAIN)


def test_a_wait_is_bounded_and_so_are_all_of_them_together(others: list[float]) -> None:
    lines: list[str] = []
    patient = Patience(100.0, lines.append)
    others[:] = [1.3]
    spent = []
    for _ in range(4):
        patient.wait()
        spent.append(round(patient.waited))
    assert spent == [60, 100, 100, 100]
    assert "do not leave the cores alone" in lines[-1] and "at most 40 s" in "".join(lines)
    patient = Patience(100.0, lines.append)
    patient.wait(5.5)
    assert patient.waited == pytest.approx(5.5)  # the last look takes the remaining time
    patient.wait(90.0)
    assert patient.waited == pytest.approx(65.5, abs=patience.LOOK)


def test_no_wait_is_none(others: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    others[:] = [2.0]
    nobody = Patience(0, lambda _: None)
    nobody.wait()
    assert nobody.waited == 0.0
    monkeypatch.setenv(patience.VARIABLE, "7")
    assert Patience(None, lambda _: None).total == 7.0 and Patience(3, lambda _: None).total == 3.0
    monkeypatch.delenv(patience.VARIABLE)
    assert Patience(None, lambda _: None).total == plan.WAIT
    monkeypatch.setenv(patience.VARIABLE, "soon")
    with pytest.raises(ArgumentError, match=r"\$XBACKEND_WAIT='soon': a number of seconds"):
        Patience(None, lambda _: None)
    for wrong in (-1, float("inf"), float("nan"), 1e6):
        with pytest.raises(ArgumentError, match=f"wait={wrong}: a number of seconds"):
            Patience(wrong, lambda _: None)


@pytest.fixture
def burner() -> Iterator[Callable[[float], None]]:
    """Starts a process, in its own process group, that keeps a core busy for so many seconds."""
    started: list[subprocess.Popen[bytes]] = []

    def burn(seconds: float) -> None:
        code = f"import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
        started.append(subprocess.Popen([sys.executable, "-c", code], start_new_session=True))

    yield burn
    for one in started:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def test_a_process_that_burns_a_core_is_seen_and_waited_for(burner: Callable[[float], None]) -> None:
    lines: list[str] = []
    burner(60.0)
    time.sleep(0.3)
    patient = Patience(100.0, lines.append)
    patient.wait(2.0)
    assert 1.5 <= patient.waited <= 10.0
    assert "waiting until other processes leave the cores alone: they use " in lines[0]


@pytest.mark.tier("exhaustive")
def test_what_this_process_and_its_ended_children_use_is_not_others() -> None:
    """Seconds of this process, and of children that it has waited for, cause no wait. The least of five looks counts,
    as others may work."""
    code = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"

    def look() -> float:
        with patience.foreign_load() as found:
            subprocess.run([sys.executable, "-c", code], check=True)
        return found[0]

    def of_others() -> float:
        with patience.foreign_load() as found:
            time.sleep(0.5)
        return found[0]

    assert min(look() - of_others() for _ in range(5)) < 0.5


# --- visits that are made again ---------------------------------------------------------------------------------------


def test_a_disturbed_visit_is_made_again_and_does_not_count(others: list[float]) -> None:
    """The second visit of two is loud, and takes twice as long."""
    loud = answer(0.01, [QUIET, LOUD, QUIET])
    loud.visits[1]["rounds"] = [0.02] * 3
    done = taken(lambda _: loud, 1)
    (candidate,) = done.candidates
    (measured,) = candidate.processes
    assert [visit.disturbed for visit in measured.visits] == [False, True, False]
    assert measured.time == pytest.approx(0.01) and not measured.disturbed
    assert len(done.order) == 1 and candidate.measurement().times == candidate.times
    assert disturbed(done.results("again")) == ("others used more than 0.25 cores during 1 of 3 visits; 1 do not count")
    assert not any("disturbed" in warning for warning in candidate.measurement().warnings)


def test_what_is_far_behind_and_slow_is_visited_twice(others: list[float]) -> None:
    """Each of its rounds takes longer than all visits of the others."""
    effort = Effort(visits=10, at_least=3, seconds=2.0)
    slow, fast = answer(10.0), answer(0.01)
    done = Session(
        [Candidate(CASE, "numpy", 1), Candidate(CASE, "jax", 1), Candidate(CASE, "pytensor", 1)],
        extent=Extent(3, fixed=False), threads=1, seed=0, effort=effort,
        opener=Here(numpy=lambda _: fast, jax=lambda _: slow, pytensor=lambda _: answer(0.02)),
    )  # fmt: skip
    done.run()
    visits = {c.backend: [len(process.visits) for process in c.processes] for c in done.candidates}
    assert set(visits["numpy"]) == {10} and visits["jax"] == [2] and visits["pytensor"][0] == 3


def test_what_is_disturbed_each_time_counts_with_a_warning_and_ends(others: list[float]) -> None:
    done = taken(lambda _: answer(0.01, [LOUD]))
    (candidate,) = done.candidates
    assert [len(measured.visits) for measured in candidate.processes] == [3] * 3  # half as many again as planned
    assert all(measured.disturbed for measured in candidate.processes)
    (warning,) = [w for w in candidate.measurement().warnings if "other programs" in w]
    assert "used up to 0.8 cores all through 3 of 3 processes: " in warning
    said = disturbed(done.results("loud"))
    assert "during 9 of 9 visits; 0 do not count, 9 count, as their process has no others" in said


@pytest.mark.parametrize(
    ("visits", "seconds", "wanted"),
    [
        ([], 1.0, True),
        ([QUIET] * 9, 1.0, True),
        ([QUIET] * 10, 1.0, False),
        ([*[QUIET] * 9, LOUD], 1.0, True),
        ([LOUD] * 14, 1.0, True),
        ([LOUD] * 15, 1.0, False),
        ([QUIET], 9.0, True),  # at least two visits
        ([QUIET, QUIET], 9.0, False),  # the seconds are used up
        ([QUIET, LOUD], 9.0, True),
        ([LOUD] * 4, 9.0, False),
    ],
)
def test_how_often_a_process_is_visited(visits: list[float], seconds: float, wanted: bool) -> None:
    """Ten times, or sixteen seconds of rounds; half as much more if some were disturbed."""
    effort = Effort(visits=10, at_least=2, seconds=16.0, rounds=2)
    live = Live(Candidate(CASE, "numpy", 1), mock.Mock(), {})
    live.measured = Measured(inputs="", tolerance=0.0, iterations=2)
    live.visits = [Visit([seconds / 4] * 2, 0.0, foreign) for foreign in visits]
    assert live.wants(effort) is wanted


def test_a_session_waits_where_most_visits_were_disturbed(others: list[float]) -> None:
    others[:] = [0.0, 2.0]  # at the start of the process, and later
    done = taken(lambda _: answer(0.01, [LOUD]), 1, wait=10.0)
    assert done.patience.waited == pytest.approx(10.0)
    settings = done.results("busy").settings
    assert (settings.wait, settings.waited) == (10.0, pytest.approx(10.0))
    assert taken(lambda _: answer(0.01, [QUIET]), 1, wait=10.0).patience.waited == pytest.approx(10.0)  # once, at first
    others[:] = [2.0]
    assert taken(lambda _: answer(0.01, [LOUD]), 1, wait=0.0).patience.waited == 0.0


def test_waits_stay_within_the_time_given(others: list[float]) -> None:
    others[:] = [2.0]
    done = taken(lambda _: answer(0.01, [LOUD]), Extent(1, seconds=4.0), wait=5.0)
    assert 0 < done.patience.waited <= 5.0 + patience.LOOK  # the clock stands still otherwise


# --- which count ------------------------------------------------------------------------------------------------------

LEVELS = st.sampled_from([None, 0.0, FOREIGN, 0.26, 1.9])
ROUNDS = st.lists(st.floats(0.1, 10.0), min_size=1, max_size=4)
VISITS = st.lists(st.builds(Visit, ROUNDS, st.just(0.0), LEVELS), min_size=1, max_size=30)


@given(VISITS, st.data())
def test_disturbed_visits_do_not_count_unless_all_are(visits: list[Visit], data: st.DataObject) -> None:
    all_ = all(visit.disturbed for visit in visits)
    others = [
        msgspec.structs.replace(visit, rounds=data.draw(ROUNDS)) if visit.disturbed and not all_ else visit
        for visit in visits
    ]
    assert figure(others) == figure(visits)


@given(VISITS, st.data())
def test_the_order_of_visits_and_of_their_rounds_does_not_count(visits: list[Visit], data: st.DataObject) -> None:
    mixed = [msgspec.structs.replace(v, rounds=data.draw(st.permutations(v.rounds))) for v in visits]
    assert figure(data.draw(st.permutations(mixed))) == pytest.approx(figure(visits), rel=1e-12)


def test_a_figure_is_a_trimmed_geometric_mean_of_medians() -> None:
    assert figure([Visit([1.0, 9.0, 2.0])]) == pytest.approx(2.0)
    assert figure([Visit([1.0]), Visit([4.0])]) == pytest.approx(2.0)
    assert figure([Visit([1.0])] * 9 + [Visit([100.0])]) == pytest.approx(1.0)  # a tenth is trimmed at either end


# --- kept, recovered, shown -------------------------------------------------------------------------------------------


class Ended(BaseException):
    """Stands for the end of this process."""


def test_visits_are_kept_before_their_process_has_ended(tmp_path: Path) -> None:
    visits = iter([0, 1])

    def ends(function: str, *_: Any) -> None:
        if function.endswith(":visit") and next(visits, None) is None:
            raise Ended

    with pytest.raises(Ended):
        session.compare(TINY, backends=["numpy"], opener=Here(ends), processes=1, store=Store(tmp_path), wait=0)
    found = Store(tmp_path).load("latest")
    (measured,) = found.measurements[0].processes
    assert not found.complete and len(measured.visits) == 2 and measured.checks is not None
    assert measured.memory is None and measured.compiled is None  # found out at the end


def test_the_report_says_what_was_disturbed() -> None:
    loud = beside(process(9.0, 1), 1.5)
    found = results(row(processes=[process(1.0, 0), loud, process(1.0, 2)]), order=[f"candidate {i}" for i in range(3)])
    said = "Disturbed: others used more than 0.25 cores during 1 of 3 visits; 0 do not count, 1 count"
    assert said in whole_of(found)


def test_how_long_a_session_waited_is_said_and_nothing_on_a_quiet_machine() -> None:
    waited = "waited 12 s for other processes to leave the cores alone"
    for seconds, expected in ((12.4, [waited]), (0.0, []), (None, [])):
        assert quiet(results(settings=schema.SessionSettings(waited=seconds))) == expected


def test_the_option_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "--wait", "-1"]) == cli.WRONG
    assert "'-1' is not a number of seconds from 0 up" in capsys.readouterr().err
