"""A noisy machine is waited for, and what others disturbed is measured again: bounded, shown, and all of it kept."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import whole_of
from store_helpers import process, results, row
from test_sessions import SMALL, TASK, TINY, Here, answer

from xbackend import cli
from xbackend.analysis.disturbed import disturbed, quiet
from xbackend.errors import ArgumentError
from xbackend.measure import patience, plan, session
from xbackend.measure.candidates import Candidate, disturbed_warnings
from xbackend.measure.patience import Patience
from xbackend.measure.plan import Extent
from xbackend.measure.runner import Session
from xbackend.results import schema
from xbackend.results.runs import Store
from xbackend.results.schema import FOREIGN, Phases, Process, attempts, counting

pytestmark = pytest.mark.tier("standard")

LOUD, QUIET = {"foreign_cores": 0.8}, {"foreign_cores": 0.1}


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """What others use at each look, the last one again and again; for a wait time passes by looking only."""
    clock, used = 0.0, [0.0]

    def look(seconds: float) -> float:
        nonlocal clock
        clock += seconds
        return used.pop(0) if len(used) > 1 else used[0]

    monkeypatch.setattr(patience, "_used", look)
    monkeypatch.setattr(patience.time, "monotonic", lambda: clock)
    monkeypatch.setattr(plan, "AGAIN", 100.0)  # there is time for what the tests are about
    yield used


def taken(
    says: Callable[[dict[str, Any]], dict[str, Any]], extent: Extent | int = 3, wait: float = 100.0, **options: Any
) -> Session:
    """A finished session of one backend whose processes say this."""
    done = Session(
        [Candidate(TASK, "numpy", 1)], extent=extent, threads=1, seed=0, effort=SMALL, opener=Here(numpy=says),
        wait=wait, **options,
    )  # fmt: skip
    done.run()
    return done


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_a_quiet_machine_is_not_waited_for(others: list[float]) -> None:
    lines: list[str] = []
    patient = Patience(100.0, lines.append)
    others[:] = [FOREIGN]
    assert patient.wait() and patient.waited == 0.0 and lines == []


def test_a_noisy_machine_is_waited_for_and_it_is_said(others: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience.cores, "count", lambda: 2)
    lines: list[str] = []
    patient = Patience(100.0, lines.append)
    others[:] = [*[1.3] * 15, 0.1]
    assert patient.wait()
    assert patient.waited == pytest.approx(15 * patience.AGAIN)
    words = "waiting until other processes leave the cores alone: they use 1.3 of 2 cores (at most 60 s)"
    assert lines == [words] * 2  # one in ten seconds


def test_a_wait_ends_as_soon_as_others_use_no_more_than_is_allowed(others: list[float]) -> None:
    others[:] = [1.3, FOREIGN, 1.3]
    patient = Patience(100.0, lambda _: None)
    assert patient.wait() and patient.waited == pytest.approx(patience.AGAIN)


def test_a_wait_is_bounded_and_so_are_all_of_them_together(others: list[float]) -> None:
    lines: list[str] = []
    patient = Patience(100.0, lines.append)
    others[:] = [1.3]
    spent = []
    for _ in range(4):
        assert not patient.wait()
        spent.append(round(patient.waited))
    assert spent == [60, 100, 100, 100]
    assert "do not leave the cores alone" in lines[-1] and "at most 40 s" in "".join(lines)
    patient = Patience(100.0, lines.append)
    assert not patient.wait(5.5) and patient.waited == pytest.approx(5.5)  # the last look is as long as is left
    assert not patient.wait(90.0) and patient.waited == pytest.approx(65.5, abs=patience.LOOK)


def test_no_wait_is_none(others: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    others[:] = [2.0]
    assert Patience(0, lambda _: None).wait()
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
    """Starts a process that keeps a core busy for so many seconds, in a process group of its own."""
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
    assert not patient.wait(2.0)
    assert 1.5 <= patient.waited <= 10.0
    assert "waiting until other processes leave the cores alone: they use " in lines[0]


def test_what_this_process_and_its_ended_children_use_is_not_others() -> None:
    """Its own seconds, and those of children that it has waited for, are no reason to wait; the least of five looks, as
    others may be at work."""
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


# --- measuring again --------------------------------------------------------------------------------------------------


def test_a_disturbed_process_is_measured_again_and_the_new_one_counts(others: list[float]) -> None:
    """The second of three is loud; its seconds are as good as those of the others."""
    count = itertools.count()
    lines: list[str] = []

    def says(_: Any) -> dict[str, Any]:
        return answer(0.01, **(LOUD if next(count) == 1 else QUIET))

    done = taken(says, on_progress=lines.append)
    (candidate,) = done.candidates
    loud = candidate.processes[1]
    assert [p.again for p in candidate.processes] == [None, None, None, loud.order]
    assert [p.order for p in counting(candidate.processes)] == [
        candidate.processes[i].order for i in (0, 3, 2)
    ]  # in its place
    assert len(candidate.medians) == 3 and candidate.measurement().medians == candidate.medians
    assert done.order[-1] == candidate.label and len(done.order) == 4
    assert any("[again 1/1] numpy | 1 device: others disturbed it, starting a process" in line for line in lines)
    found = disturbed(done.results("again"))
    assert (found.places, found.disturbed, found.again, found.replaced) == (3, 1, 1, 1)
    assert found.words == (
        "others used more than 0.25 cores during 1 of 3 timings: measured again 1, replaced by an undisturbed one 1, "
        "counting all the same 0"
    )
    assert not any("disturbed" in warning for warning in candidate.measurement().warnings)


def test_what_is_disturbed_each_time_counts_once_with_a_warning(others: list[float]) -> None:
    done = taken(lambda _: answer(0.01, **LOUD))
    (candidate,) = done.candidates
    assert len(candidate.processes) == 9 and len(candidate.medians) == 3  # each of three twice again
    assert counting(candidate.processes) == candidate.processes[:3]
    (warning,) = [w for w in candidate.measurement().warnings if "disturbed" in w]
    assert "others disturbed 3 of 3 processes, which count" in warning and "up to 0.8 cores busy" in warning
    found = disturbed(done.results("loud"))
    assert (found.disturbed, found.again, found.replaced) == (3, 3, 0) and "counting all the same 3" in found.words


def test_the_warning_is_of_the_processes_that_count() -> None:
    """What was replaced by an undisturbed one may have been disturbed more."""
    used = [(0, 1.9, None), (1, 0.3, None), (2, 0.0, None), (3, 0.0, 0)]
    processes = [
        Process(order=i, started=1.0, iterations=1, rounds=[1.0], phases=Phases(), foreign_cores=cores, again=again)
        for i, cores, again in used
    ]
    (warning,) = disturbed_warnings(processes)
    assert warning.startswith("others disturbed 1 of 3 processes") and "up to 0.3 cores" in warning


def test_nothing_is_measured_again_while_others_are_at_work_or_without_waiting(others: list[float]) -> None:
    others[:] = [2.0]
    busy = taken(lambda _: answer(**LOUD), wait=10.0)
    assert len(busy.order) == 3 and busy.patience.waited == pytest.approx(10.0)
    assert len(taken(lambda _: answer(**LOUD), wait=0.0).order) == 3
    settings = busy.results("busy").settings
    assert (settings.wait, settings.waited) == (10.0, pytest.approx(10.0))


@pytest.mark.parametrize(
    ("extent", "seconds", "allowed"),
    [
        (Extent(3), (100, 100, 0, 50), True),
        (Extent(3), (100, 100, 0, 51), False),
        (Extent(3), (100, 160, 60, 50), True),
        (Extent(3, seconds=200), (100, 160, 60, 41), False),
        (Extent(3, within=180), (170, 171, 0, 9), True),
        (Extent(3, within=180), (170, 171, 0, 10), False),
        (Extent(3, within=180), (170, 271, 100, 9), True),
    ],
)
def test_measuring_again_is_bounded(extent: Extent, seconds: tuple[float, float, float, float], allowed: bool) -> None:
    assert extent.allows_again(*seconds) is allowed


def test_waits_stay_within_the_time_given(others: list[float]) -> None:
    others[:] = [2.0]
    done = taken(lambda _: answer(**LOUD), Extent(1, seconds=4.0))
    assert 0 < done.patience.waited <= 4.0 + patience.LOOK  # of one process; the clock stands still beside


# --- which count ------------------------------------------------------------------------------------------------------

LEVELS = st.sampled_from([None, 0.0, FOREIGN, 0.26, 1.9])


@st.composite
def sessions(draw: st.DrawFn) -> list[Process]:
    """The processes of a candidate in their order: some first ones, then some in the place of those."""
    firsts = draw(st.integers(1, 6))
    again = draw(st.lists(st.integers(0, firsts - 1), max_size=8))
    return [
        msgspec.structs.replace(process(draw(st.floats(0.1, 10.0)), order), again=place, foreign_cores=draw(LEVELS))
        for order, place in enumerate([*[None] * firsts, *again])
    ]


@given(sessions())
def test_one_counts_for_each_place_and_it_is_undisturbed_if_any_is(processes: list[Process]) -> None:
    found = counting(processes)
    firsts = [p for p in processes if p.again is None]
    assert len(found) == len(firsts)
    for first, chosen in zip(firsts, found, strict=True):
        there = [p for p in processes if p is first or p.again == first.order]
        assert chosen in there
        assert chosen.disturbed == all(p.disturbed for p in there)
        if not first.disturbed or chosen.disturbed:
            assert chosen is first
    assert sorted(p.order for each in attempts(processes) for p in each) == [p.order for p in processes]


@given(sessions(), st.data())
def test_which_count_depends_on_what_others_used_and_never_on_the_seconds(
    processes: list[Process], data: st.DataObject
) -> None:
    other = [msgspec.structs.replace(p, rounds=[data.draw(st.floats(0.1, 10.0))]) for p in processes]
    assert [p.order for p in counting(other)] == [p.order for p in counting(processes)]


@given(sessions())
def test_results_that_know_of_no_second_attempt_count_all(processes: list[Process]) -> None:
    """As those of older versions, in which others may have disturbed all of them."""
    old = [msgspec.structs.replace(p, again=None, order=0) for p in processes]
    assert counting(old) == old


def test_a_process_in_the_place_of_one_that_is_lost_counts() -> None:
    one, lost = process(1.0, 0), msgspec.structs.replace(process(2.0, 5), again=3)
    assert counting([one, lost]) == [one, lost]


# --- kept, recovered, shown -------------------------------------------------------------------------------------------


class Ended(BaseException):
    """What the end of this process would be."""


@pytest.mark.parametrize("cut", [False, True], ids=["finished", "cut off"])
def test_all_of_it_is_kept_and_a_run_that_was_cut_off_counts_the_same(
    others: list[float], tmp_path: Path, cut: bool
) -> None:
    """All first processes are disturbed; in the run that is cut off the last of those measured again is missing."""
    count = itertools.count()

    def says(_: Any) -> dict[str, Any]:
        number = next(count)
        if cut and number == 5:
            raise Ended
        return answer(0.01 + 0.001 * number, **(LOUD if number < 3 else QUIET))

    try:
        session.compare(backends=["numpy"], parameters=TINY, opener=Here(numpy=says), store=Store(tmp_path), wait=9)
    except Ended:
        assert cut
    found = Store(tmp_path).load("latest")
    assert found.complete is not cut
    kept = found.measurements[0].processes
    assert [p.order for p in kept] == [*range(5 if cut else 6)]
    medians = found.measurements[0].medians
    assert len(medians) == 3 and sum(median < 0.0125 for median in medians) == cut
    assert disturbed(found).replaced == (2 if cut else 3)


def test_the_report_says_what_was_disturbed_and_what_counts() -> None:
    loud, new = (msgspec.structs.replace(process(m, o), foreign_cores=f) for m, o, f in ((9.0, 1, 1.5), (1.0, 7, 0.0)))
    measured = row(processes=[process(1.0, 0), loud, process(1.0, 2), msgspec.structs.replace(new, again=1)])
    found = results(measured, order=[f"candidate {i}" for i in range(8)])
    document = whole_of(found)
    assert "Disturbed: others used more than 0.25 cores during 1 of 3 timings: measured again 1," in document
    assert "candidate 1, does not count" in document and "candidate 7, in the place of 1" in document
    assert found.measurements[0].medians == [1.0, 1.0, 1.0]


def test_how_long_a_session_waited_is_said_and_nothing_on_a_quiet_machine() -> None:
    waited = "waited 12 s for other processes to leave the cores alone"
    for seconds, expected in ((12.4, [waited]), (0.0, []), (None, [])):
        assert quiet(results(settings=schema.SessionSettings(waited=seconds))) == expected


def test_the_option_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "--wait", "-1"]) == cli.WRONG
    assert "'-1' is not a number of seconds from 0 up" in capsys.readouterr().err
