"""The release in which something changed: the releases to look at, the verdict on them, and the command."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from store_helpers import STEADY, process, results, row
from test_sessions import CASE, Answer, answer, saying

from xbackend import workloads
from xbackend.analysis import bisection
from xbackend.analysis.bisection import What
from xbackend.analysis.comparison import Row
from xbackend.analysis.family import ratio
from xbackend.analysis.statistics import Verdict
from xbackend.backends.contract import Settings
from xbackend.backends.numpy.adapter import NumPyBackend
from xbackend.cli import DONE, INCOMPLETE, WRONG, main
from xbackend.cli import bisect as command
from xbackend.environments import releases
from xbackend.errors import EnvironmentFailed, WorkerDied
from xbackend.measure import bisect
from xbackend.measure.bisect import Beside, Bisection, Found
from xbackend.measure.worker import Worker
from xbackend.results.runs import Store
from xbackend.results.schema import Phases, Process, Results

pytestmark = pytest.mark.tier("standard")

SEARCHES = 100
NAMES = [f"pytensor==2.{minor}.0" for minor in range(30, 46)]

# --- which is looked at next ------------------------------------------------------------------------------------------


@given(st.integers(2, 300), st.data())
def test_the_first_changed_one_is_found_in_the_logarithm_of_all(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count - 1))
    asked: list[int] = []

    def changed(i: int) -> bool:
        asked.append(i)
        return i >= first

    brackets = bisection.search(count, changed)
    assert brackets[0] == (0, count - 1) and brackets[-1] == (first - 1, first)
    assert all(a <= c < first <= d <= b for (a, b), (c, d) in pairwise(brackets))
    assert len(asked) <= math.ceil(math.log2(count)) and len(set(asked)) == len(asked)
    assert 0 not in asked and count - 1 not in asked


@given(st.integers(2, 60), st.data())
def test_what_cannot_be_told_lies_between_the_two_that_are_named(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count - 1))
    unknown = data.draw(st.sets(st.integers(1, count - 1))) - {count - 1}
    low, high = bisection.search(count, lambda i: None if i in unknown else i >= first)[-1]
    assert low < first <= high
    assert set(range(low + 1, high)) <= unknown and not {low, high} & unknown


@given(st.integers(0, 60), st.data())
def test_the_ends_are_the_outermost_that_work_or_a_few_further_in(count: int, data: st.DataObject) -> None:
    good = data.draw(st.sets(st.integers(0, max(count - 1, 0))))
    asked = []

    def works(low: int, high: int) -> tuple[bool, bool]:
        asked.append((low, high))
        return low in good, high in good

    found = bisection.ends(count, works)
    assert len(asked) <= 2 * math.ceil(math.log2(count + 1)) + 1
    if found is not None:
        assert found[0] < found[1] and set(found) <= good
    if {0, count - 1} <= good and count > 1:
        assert found == (0, count - 1) and len(asked) == 1


def of_release(factor: float, spread: float = 1.0, last: float = 1.4) -> bisection.Times:
    """A session of a release, the first release and the last, with five processes each."""
    each = [[at * (1 + spread * (m - 1)) for m in STEADY] for at in (factor, 1.0, last)]
    return each[0], each[1], each[2]


@pytest.mark.parametrize(
    ("sessions", "known"),
    [
        ([of_release(1.4)], True),
        ([of_release(1.0)], False),
        ([of_release(2.0)], True),  # beyond the last, and before the first
        ([of_release(0.8)], False),
        ([of_release(1.18)], None),  # in the middle, whatever the spread
        ([of_release(1.1, spread=7.0)], None),  # the spread is as large as the change
        ([of_release(1.1, spread=7.0)] * 4, False),  # more processes tell more
        ([([1.0], [1.0], [2.0])], None),  # one process has no spread
        ([(STEADY, STEADY, [0.0] * 5)], None),
        ([], None),
    ],
)
def test_a_release_is_as_the_end_that_it_is_shown_to_be_nearer_to(
    sessions: list[bisection.Times], known: bool | None
) -> None:
    assert bisection.nearer(sessions, slower=True) is known


def test_a_release_that_is_nearer_to_a_faster_end_is_so_too() -> None:
    session = of_release(0.7, last=0.7)
    assert bisection.nearer([session], slower=False) is True
    assert bisection.nearer([session[::-1]], slower=True) is False  # type: ignore[list-item]


def test_what_sessions_differ_by_is_no_part_of_where_a_release_is() -> None:
    slow = tuple([3 * t for t in seconds] for seconds in of_release(1.4))
    assert bisection.nearer([of_release(1.4), slow], slower=True) is True  # type: ignore[list-item]


def test_compilations_are_told_apart_by_their_own_spread() -> None:
    """Of calls that take equal time."""

    def compiled(seconds: Sequence[float]) -> list[Process]:
        return [msgspec.structs.replace(process(0.01, i), phases=Phases(lower=s)) for i, s in enumerate(seconds)]

    noisy = [s * (0.7 if i % 2 else 1.3) for i, s in enumerate(STEADY)]
    for seconds, verdict in ((STEADY, Verdict.SLOWER), (noisy, Verdict.NOT_TOLD_APART)):
        base, head = (Row(row(processes=compiled([factor * s for s in seconds]))) for factor in (1.0, 1.1))
        change = bisection.change(head, base, What.COMPILE)
        assert change is not None and change.verdict is verdict and change.value == pytest.approx(1.1)


# --- the releases that there are --------------------------------------------------------------------------------------


def test_the_releases_that_are_asked_for_without_pre_releases_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    there = "3.0.7, 3.0.0, 3.1.0rc1, 2.38.3, 2.38.10, 2.9.0, 2.31.2, 2.30.0.dev1, banana"
    said = f"WARNING: experimental\npytensor (3.0.7)\nAvailable versions: {there}\n  INSTALLED: 3.0.7\n"
    asked: list[Sequence[str]] = []

    def pip(arguments: Sequence[str], **_: Any) -> SimpleNamespace:
        asked.append(arguments)
        return SimpleNamespace(stdout=said, stderr="", returncode=0)

    monkeypatch.setattr(releases.subprocess, "run", pip)
    monkeypatch.setattr(releases.interpreters, "choices", lambda newest: ["3.13", "3.11"])
    found = releases.releases("pytensor>=2.30,<3.1")
    assert found == [f"pytensor=={v}" for v in ("2.31.2", "2.38.3", "2.38.10", "3.0.0", "3.0.7")]
    assert [a[a.index("--python-version") + 1] for a in asked] == ["3.13", "3.11"]
    assert all(a[a.index("pip") + 1 : a.index("pip") + 4] == ["index", "versions", "pytensor"] for a in asked)


def test_a_module_in_the_folder_of_the_user_is_not_taken_for_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text("print('Available versions: 6.6.6')")
    monkeypatch.chdir(tmp_path)
    assert releases._pip("numpy", "--no-index") == set()


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 40)).map(lambda v: f"{v[0]}.{v[1]}")))
def test_versions_are_ordered_as_versions_and_not_as_text(there: set[str]) -> None:
    found = releases.chosen(there, SpecifierSet(">=2"))
    assert found == sorted((v for v in there if int(v[0]) >= 2), key=lambda v: [*map(int, v.split("."))])


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ("pytensor>=", "names no releases"),
        ("keras>=2", "there is no environment 'keras'"),
        ("pytensor[jax]>=2.30", "says more than a framework and its versions"),
    ],
)
def test_what_names_no_releases_is_refused_with_what_to_write(asked: str, word: str) -> None:
    with pytest.raises(EnvironmentFailed, match=r".*"):
        releases.releases(asked)
    try:
        releases.releases(asked)
    except EnvironmentFailed as error:
        assert word in str(error)


def test_an_index_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases.interpreters, "choices", lambda newest: ["3.13"])  # its answer is cached
    none = SimpleNamespace(stdout="", stderr="ERROR: No matching distribution found for theano", returncode=1)
    monkeypatch.setattr(releases.subprocess, "run", lambda *_, **__: none)
    assert releases.releases("theano") == []
    down = SimpleNamespace(stdout="", stderr="ERROR: connection refused", returncode=1)
    monkeypatch.setattr(releases.subprocess, "run", lambda *_, **__: down)
    with pytest.raises(EnvironmentFailed, match=r"cannot be listed: .*\n.*connection refused\nCheck the network"):
        releases.releases("pytensor>=2")

    def late(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("pip", 120)

    monkeypatch.setattr(releases.subprocess, "run", late)
    with pytest.raises(EnvironmentFailed, match="timed out"):
        releases.releases("pytensor>=2")


# --- releases whose times are planned ---------------------------------------------------------------------------------

Plan = Callable[[int], Mapping[str, Any] | Exception]


class Releases:
    """An opener of releases. Their workers' answers, or failures, are planned by minor number."""

    def __init__(self, plan: Plan, made: Callable[[int], bool] = lambda minor: True) -> None:
        self.plan, self.made = plan, made
        self.opened: list[str] = []
        self.asked: list[str] = []

    @staticmethod
    def minor(name: str) -> int:
        return int(name.split(".")[1])

    def ready(self, name: str, on_progress: Any = None) -> None:
        self.asked.append(name)
        if not self.made(self.minor(name)):
            raise EnvironmentFailed(f"{name}: no solution found\nmore words")

    def __call__(self, name: str, *, environment: str = "", **_: Any) -> Worker:
        self.opened.append(environment)
        number = self.opened.count(environment)  # its own count: disturbed sessions are repeated at any time
        backend = NumPyBackend(name, Settings(1))

        def says(_: Any) -> Answer:
            said = self.plan(self.minor(environment))
            if isinstance(said, Exception):
                raise said
            jitter = 1 + 0.01 * (number * 7 % 5 - 2)
            return answer(
                said.get("seconds", 0.01) * jitter, **{k: v * jitter for k, v in said.items() if k != "seconds"}
            )

        return Worker(backend, saying(says))

    def look(self, what: What = What.TIME, **options: Any) -> Found:
        given = {"threads": 1, "wait": 0, "processes": 3, **options}
        with mock.patch.object(bisect.environments, "sync", self.ready):
            return Bisection(CASE, "pytensor", NAMES, what, options={**given, "opener": self}).run()


@pytest.mark.parametrize("first", [31, 37, 38, 45])
def test_the_first_slower_release_is_named_with_its_ratio_to_the_one_before(first: int) -> None:
    there = Releases(lambda minor: {"seconds": 0.0142 if minor >= first else 0.01})
    found = there.look()
    assert (found.first, found.last) == (NAMES[0], NAMES[-1])
    assert (found.low, found.high) == (f"pytensor==2.{first - 1}.0", f"pytensor==2.{first}.0")
    assert found.step is not None and found.step.ratio is not None and found.between == []
    assert found.step.ratio.verdict is Verdict.SLOWER and found.step.ratio.value == pytest.approx(1.42, rel=0.03)
    assert found.step.seconds == pytest.approx((0.0142, 0.01), rel=0.03)
    assert {*there.opened[-6:]} == {found.low, found.high}  # the last session measures the two named releases
    assert len(set(there.asked)) <= 2 + math.log2(len(NAMES))  # environments
    said = command.answer(found, What.TIME, "matpow")
    assert said.startswith(f"pytensor 2.{first}.0 is the first release in which matpow is slower: 1.4")
    assert f" times the time of 2.{first - 1}.0 (" in said


def test_releases_are_measured_interleaved_with_the_one_they_are_judged_against() -> None:
    there = Releases(lambda minor: {"seconds": 0.0142 if minor >= 38 else 0.01})
    there.look()
    first = there.opened[: there.opened.index("pytensor==2.37.0")]  # the session of the first and last release
    assert {*first} == {NAMES[0], NAMES[-1]} and first.count(NAMES[-1]) == 3 * bisect.ENDS
    places = [i for i, name in enumerate(first) if name == NAMES[-1]]
    assert max(places) - min(places) > 3


def test_ends_that_are_not_told_apart_are_the_answer() -> None:
    there = Releases(lambda minor: {"seconds": 0.01})
    found = there.look()
    assert found.high == "" and there.asked == [NAMES[0], NAMES[-1]]
    said = command.answer(found, What.TIME, "matpow")
    assert said.startswith("matpow is not told apart in pytensor 2.30.0 and pytensor 2.45.0: ")
    assert said.endswith(", equal within 0 %")  # both have the same spread between processes


def test_a_faster_release_and_a_longer_compilation_are_named_too() -> None:
    quick = Releases(lambda minor: {"seconds": 0.005 if minor >= 33 else 0.01}).look()
    assert "2.33.0 is the first release in which matpow is faster: 0." in command.answer(quick, What.TIME, "matpow")
    slow = Releases(lambda minor: {"lower": 3.0 if minor >= 41 else 1.0}).look(What.COMPILE)
    said = command.answer(slow, What.COMPILE, "matpow")
    assert "pytensor 2.41.0 is the first release in which matpow is compiled more slowly: 2." in said
    assert "times the compile time of 2.40.0" in said
    assert slow.step is not None and slow.step.seconds is not None
    assert slow.step.seconds[0] > 2.5 and 0.9 < slow.step.seconds[1] < 1.5
    same = Releases(lambda minor: {"lower": 3.0 if minor >= 41 else 1.0}).look(What.TIME)
    assert same.high == ""


def test_what_cannot_be_made_or_fails_gives_its_place_to_the_next() -> None:
    """The first two cannot be made. The last fails, and so do two near the change."""

    def plan(minor: int) -> Mapping[str, Any] | Exception:
        broken = minor in (45, 37)
        return WorkerDied(f"2.{minor} died\nat once") if broken else {"seconds": 0.02 if minor >= 38 else 0.01}

    there = Releases(plan, made=lambda minor: minor not in (30, 31))
    found = there.look()
    assert (found.first, found.last) == ("pytensor==2.33.0", "pytensor==2.44.0")  # 2.33 follows 2.31: the step doubles
    assert found.reasons["pytensor==2.30.0"] == "pytensor==2.30.0: no solution found"
    assert found.reasons["pytensor==2.45.0"] == "failed: 2.45 died"
    assert (found.low, found.high, found.between) == ("pytensor==2.36.0", "pytensor==2.38.0", ["pytensor==2.37.0"])
    said = command.answer(found, What.TIME, "matpow")
    assert said.startswith("the first release of pytensor in which matpow is slower is one of 2.37.0 and 2.38.0: ")


def test_without_two_that_work_there_is_no_answer() -> None:
    found = Releases(lambda minor: {}, made=lambda minor: minor == 30).look()
    assert (
        found.first == "" and command.answer(found, What.TIME, "x") == "no two of 16 releases work: the table says why"
    )


@pytest.mark.tier("exhaustive")
def test_a_release_that_is_told_from_neither_end_is_measured_more_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bisection, "nearer", lambda sessions, slower: None)
    there = Releases(lambda minor: {"seconds": 0.02 if minor >= 38 else 0.01})
    found = there.look()
    assert len(found.between) == len(NAMES) - 2 and found.step is found.beside[NAMES[-1]]
    assert found.reasons["pytensor==2.37.0"] == "not shown to be nearer to pytensor==2.30.0 or to pytensor==2.45.0"
    assert there.opened.count("pytensor==2.37.0") == 3 + 3 + 6
    said = command.answer(found, What.TIME, "matpow")
    assert said.startswith(
        "the first release of pytensor in which matpow is slower is one of the 15 from 2.31.0 to 2.45.0"
    )


def test_of_many_small_changes_none_is_named() -> None:
    """Each release is a little slower than its predecessor."""
    found = Releases(lambda minor: {"seconds": 0.01 * 1.01 ** (minor - 30)}).look()
    assert len(found.between) >= 1
    assert found.step is not None and found.step.differs
    assert " is one of " in command.answer(found, What.TIME, "matpow")


def bisected(monkeypatch: pytest.MonkeyPatch, spread: float, seed: int) -> tuple[int, Found]:
    """The place of the release from which the time is 10 % more, and the result; sessions differ by 3 %."""
    generator = np.random.default_rng(seed)
    first = int(generator.integers(1, len(NAMES)))

    def compare(_: Any, *, environments: Sequence[str], processes: int, **__: Any) -> Results:
        session = generator.normal(0, 0.03)
        rows = []
        for name in environments:
            factor = np.exp(session + generator.normal(0, spread, processes)) * (
                1.1 if NAMES.index(name) >= first else 1.0
            )
            rows.append(row("pytensor", [0.01 * float(f) for f in factor], environment=name))
        return results(*rows)

    monkeypatch.setattr(bisect.session, "compare", compare)
    monkeypatch.setattr(bisect.environments, "sync", lambda *_, **__: None)
    return first, Bisection(CASE, "pytensor", NAMES, options={"processes": 5}).run()


def test_a_release_that_is_named_is_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a range holds it. The planted fault: an end that merely shows no difference counts as equal."""

    def shares() -> tuple[int, int, int]:
        named = right = held = 0
        for seed in range(SEARCHES):
            first, found = bisected(monkeypatch, 0.049, seed)
            if found.high:
                alone = NAMES.index(found.high) - NAMES.index(found.low) == 1
                named += alone
                right += alone and NAMES[first] == found.high
                held += NAMES.index(found.low) < first <= NAMES.index(found.high)
        return named, right, held

    named, right, held = shares()
    assert named > 0.85 * SEARCHES and right >= 0.95 * named and held >= 0.95 * named

    def hasty(sessions: Sequence[bisection.Times], slower: bool) -> bool:
        return ratio(sessions[0][0], sessions[0][1]).shown

    monkeypatch.setattr(bisection, "nearer", hasty)
    monkeypatch.setattr(Bisection, "_step", lambda self, low, high: self._beside(low, high))
    named, right, held = shares()
    assert right < 0.8 * named


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 5), ({"quick": True}, 3), ({"processes": 7}, 7)],
)
def test_as_many_processes_are_measured_as_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: int
) -> None:
    asked: list[int] = []

    def compare(*_: Any, processes: int, **__: Any) -> None:
        asked.append(processes)
        raise InterruptedError

    monkeypatch.setattr(bisect.session, "compare", compare)
    monkeypatch.setattr(bisect.environments, "sync", lambda *_, **__: None)
    with pytest.raises(InterruptedError):
        Bisection(CASE, "pytensor", NAMES, options=options).run()
    assert asked == [bisect.ENDS * expected]


@pytest.mark.parametrize(
    ("difference", "passes", "differs"), [(1e-5, 1e-5, False), (1.1e-5, 1e-5, True), (math.nan, 1e-5, True)]
)
def test_numbers_differ_beyond_the_tolerance_and_where_one_is_none(
    difference: float, passes: float, differs: bool
) -> None:
    assert Beside(difference=difference, passes=passes).differs is differs


def test_the_tolerance_is_the_one_given_or_that_of_the_function_or_that_of_the_workload() -> None:
    own = replace(CASE, inputs=[], tolerance=0.25)
    assert Bisection(own, "pytensor", NAMES).passes == 0.25
    assert Bisection(own, "pytensor", NAMES, tolerance=0.0).passes == 0.0
    assert Bisection(CASE, "pytensor", NAMES).passes == workloads.get("matpow").passes(**CASE.parameters) > 0


class Other(NumPyBackend):
    """Returns other numbers."""

    factor = 1.0

    def get(self, value: Any) -> np.ndarray:
        return super().get(value) * np.float32(self.factor)


def test_the_first_release_with_other_numbers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Releases(lambda minor: {})
    monkeypatch.setattr(bisect.environments, "sync", there.ready)

    def opener(name: str, *, environment: str = "", **_: Any) -> Worker:
        backend = Other(name, Settings(1))
        backend.factor = 1.01 if there.minor(environment) >= 40 else 1.0 + 1e-7
        return Worker(backend, lambda *_: None)

    looked = Bisection(CASE, "pytensor", NAMES, What.NUMBERS, options={"opener": opener})
    found = looked.run()
    assert (found.low, found.high) == ("pytensor==2.39.0", "pytensor==2.40.0")
    said = command.answer(found, What.NUMBERS, "matpow")
    assert said.startswith("pytensor 2.40.0 is the first release in which matpow returns other numbers: they differ by")
    loose = Bisection(CASE, "pytensor", NAMES, What.NUMBERS, tolerance=0.1, options={"opener": opener}).run()
    assert loose.high == ""


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Releases slower from 2.38 on, of which 2.30 cannot be made."""
    there = Releases(lambda minor: {"seconds": 0.02 if minor >= 38 else 0.01}, made=lambda minor: minor != 30)
    monkeypatch.setattr(command, "releases", lambda wanted: NAMES)

    class Planned(Bisection):
        def __post_init__(self) -> None:
            self.options = {**self.options, "opener": there}
            super().__post_init__()

    monkeypatch.setattr(bisect.environments, "sync", there.ready)
    monkeypatch.setattr(bisect, "Bisection", Planned)
    monkeypatch.setattr(command, "Bisection", Planned)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_first_line_is_the_answer_and_the_table_has_what_was_looked_at(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (planned / "mine.py").write_text("import numpy\ndef inputs(): return [numpy.ones(4)]\ndef twice(x): return x + x\n")
    assert main(["bisect", "pytensor>=2.30", "mine.py:twice", "--quick"]) == DONE
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("pytensor 2.38.0 is the first release in which twice on pytensor is slower: ")
    rows = {line.split("│")[1].strip(): line for line in rest if line.startswith("│")}
    assert "left out" in rows["pytensor==2.30.0"] and "no solution found" in rows["pytensor==2.30.0"]
    assert "the first" in rows["pytensor==2.31.0"] and "slower" in rows["pytensor==2.45.0"]
    assert rest[-1] == f"{len(rows)} releases of 16 were looked at"
    assert len(Store(planned / ".xbackend" / "runs").names()) >= 4


def test_no_two_that_work_is_incomplete(planned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "releases", lambda wanted: NAMES[:2])
    assert main(["bisect", "pytensor>=2.30", "matpow", "--quick"]) == INCOMPLETE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "there is no workload 'nothing'; there is attention, axis_sums"),
        (
            ["matpow", "--backend", "numpy"],
            "--backend numpy: it does not run on pytensor; there is pytensor, pytensor-c",
        ),
        (["matpow", "--input", "3"], "--input is for a function"),
        (["matpow", "--what", "money"], "money"),
        (["matpow", "--tolerance", "0.1"], "--tolerance is for --what numbers"),
    ],
)
def test_what_is_wrong_is_said(planned: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "pytensor>=2.30", *words]) == WRONG
    assert said in capsys.readouterr().err


def test_one_release_is_not_enough(planned: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(command, "releases", lambda wanted: NAMES[:1])
    assert main(["bisect", "pytensor==2.30.0", "matpow"]) == WRONG
    assert "the package index has pytensor==2.30.0; two releases are needed" in capsys.readouterr().err
