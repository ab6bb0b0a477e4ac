"""One device against several: shares of a profile, the ledger, the size from which it pays, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import linear_regression
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_helpers import check_svg, markdown_of, measured, of, rows_of, whole_of
from store_helpers import beside

from xbackend.analysis import scaling
from xbackend.analysis.comparison import comparisons
from xbackend.analysis.statistics import Verdict
from xbackend.backends.placement import ProfiledCall, Span
from xbackend.devices import Device
from xbackend.measure import profiles
from xbackend.report.drawn import timelines
from xbackend.report.said import ledger, text
from xbackend.report.said.comparison import build
from xbackend.results.schema import Measurement, Profile, Results, SessionSettings

change: Callable[..., Any] = msgspec.structs.replace
CPUS = [Device("cpu", i) for i in range(4)]
SESSIONS = 60
BOTH = {"dev0": "cpu:0", "dev1": "cpu:1"}


# --- shares of a profile ----------------------------------------------------------------------------------------------


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    """Spans on whole seconds: counting seconds gives the expected result."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        start = draw(st.integers(-2, 20))
        end = start + draw(st.integers(0, 6))
        kind = draw(st.sampled_from(["compute", "compute", "transfer"]))
        found.append(Span(draw(st.sampled_from(CPUS[:3])), float(start), float(end), kind, "op"))
    return found


def called(found: list[Span], seconds: float | None = None) -> ProfiledCall:
    """A call of these spans. By default it ends with the last of them."""
    ends, starts = [span.end for span in found], [span.start for span in found]
    return ProfiledCall(found, max(ends, default=0.0) - min([0.0, *starts]) if seconds is None else seconds)


def later(found: list[Span]) -> list[Span]:
    """The spans, shifted into the call."""
    return [Span(s.device, s.start + 2, s.end + 2, s.kind, s.what) for s in found]


def seconds(found: list[Span], kind: str) -> dict[str, set[int]]:
    """The whole seconds of each device with a span of the kind."""
    inside: dict[str, set[int]] = {}
    for span in found:
        if span.kind == kind:
            inside.setdefault(str(span.device), set()).update(range(int(span.start), int(span.end)))
    return inside


@given(spans())
def test_busy_transfers_and_together_are_the_seconds_of_the_union(found: list[Span]) -> None:
    summary = profiles.summary(called(found))
    computing, moving = seconds(found, "compute"), seconds(found, "transfer")
    assert summary["busy"] == {device: len(inside) for device, inside in computing.items()}
    assert summary["transfers"] == len(set().union(*moving.values()))
    assert summary["exposed"] == len(set().union(*moving.values()) - set().union(*computing.values()))
    every = [second for inside in computing.values() for second in inside]
    assert summary["together"] == len({second for second in every if every.count(second) > 1})
    assert summary["wall"] == max(s.end for s in found) - min(0, *(s.start for s in found))
    assert summary["count"] == len(found) and all(0 <= s[1] <= s[2] <= summary["wall"] for s in summary["spans"])


def test_transfers_of_accelerators_are_told_apart_by_their_ways() -> None:
    def moved(start: float, end: float, source: str, target: str) -> Span:
        return Span(Device.parse(target), start, end, "transfer", f"{source} to {target}")

    found = [
        *(moved(0.0, 2.0, "gpu:0", "gpu:1"), moved(1.0, 3.0, "gpu:1", "gpu:0"), moved(3.0, 8.0, "gpu:1", "cpu:0")),
        *(moved(8.0, 9.0, "cpu:0", "cpu:1"), Span(Device("gpu"), 9.0, 10.0, "compute", "stage 0")),
    ]
    stored = Profile(**{**profiles.summary(called(found)), "spans": []})
    assert stored.ways == {"between GPUs": 3.0, "to the host": 5.0} and stored.transfers == 9.0
    shares = scaling.shares([stored, stored], ["gpu:0"])
    assert shares.ways == {"between GPUs": 0.3, "to the host": 0.5}
    assert not profiles.summary(called(computed(1.0)))["ways"]


@given(spans(), st.floats(0, 100))
def test_the_parts_of_a_call_are_all_of_it(found: list[Span], longer: float) -> None:
    """Each second is of computing, else of a transfer, else of waiting, or of the launch."""
    found = later(found)
    first, last = min(s.start for s in found), max(s.end for s in found)
    summary = profiles.summary(called(found, last + longer))
    computing = set().union(*seconds(found, "compute").values())
    moving = set().union(*seconds(found, "transfer").values()) - computing
    assert (summary["compute"], summary["exposed"]) == (len(computing), len(moving))
    assert summary["wait"] == last - first - len(computing | moving)
    assert summary["launch"] == pytest.approx(first + longer)
    if last + longer > 0:
        stored = Profile(**{**summary, "wall": summary["wall"] or 1.0, "spans": []})
        assert math.fsum(stored.parts.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("seconds", [0.9, 0.94])
def test_a_profile_that_is_longer_than_its_call_is_a_reason(seconds: float) -> None:
    """As from a device with another clock."""

    class Off:
        def profile(self, *_: Any) -> ProfiledCall:
            return called(computed(1.0), seconds)

    taken, unprofiled = profiles.take(Off(), (), 1.0)  # type: ignore[arg-type]
    assert taken is None
    assert unprofiled == (
        f"the parts of the profile (launch 0, compute 1, exposed 0, wait 0 s) do not add up to its call, {seconds} s"
    )


def test_a_stored_profile_whose_parts_are_not_the_whole_is_damage() -> None:
    summary = {**profiles.summary(called(computed(1.0))), "spans": []}
    assert Profile(**summary).parts == {"compute": 1.0, "transfer": 0.0, "wait": 0.0, "launch": 0.0}
    with pytest.raises(ValueError, match="parts that are not the whole of its call"):
        Profile(**{**summary, "call": 2.0})


@given(st.lists(spans(), min_size=1, max_size=3), st.lists(st.sampled_from(list(map(str, CPUS)))))
def test_shares_are_parts_of_one(many: list[list[Span]], bound: list[str]) -> None:
    calls = [call for call in map(called, map(later, many)) if call.seconds > 0]
    usable = [Profile(**{**profiles.summary(call), "spans": []}) for call in calls]
    if not usable:
        return
    shares = scaling.shares(usable, bound)
    parts = [shares.transfers, shares.exposed, shares.together, *shares.idle.values()]
    assert all(0 <= part <= 1 for part in parts)
    assert shares.parts is None or math.fsum(shares.parts.values()) == pytest.approx(1.0)
    assert set(bound) <= set(shares.idle)
    assert shares.wall == pytest.approx(sorted(p.wall for p in usable)[len(usable) // 2], abs=100)


def test_what_only_touches_does_not_overlap() -> None:
    assert profiles.covered([(3.0, 4.0), (0.0, 1.0), (1.0, 2.0), (0.5, 0.7)]) == [(0.0, 2.0), (3.0, 4.0)]
    assert profiles.covered([(0.0, 2.0), (2.0, 4.0), (3.0, 5.0)], 2) == [(3.0, 4.0)]


class Profiled:
    """An executable with these profiles, one after the other."""

    def __init__(self, *found: list[Span]) -> None:
        self.left = list(found)

    def profile(self, *_: Any) -> ProfiledCall:
        return called(self.left.pop(0))


def computed(until: float, start: float = 0.0) -> list[Span]:
    return [Span(CPUS[0], start, until, "compute", "matmul")]


def test_the_profile_of_median_length_counts() -> None:
    executable = Profiled(*[computed(s) for s in (90.0, 3.0, 1.0, 2.0)])
    taken, reason = profiles.take(executable, (), 60.0)  # type: ignore[arg-type]
    assert taken is not None and reason == "" and taken["wall"] == 2.0 and taken["taken"] == 3


@pytest.mark.parametrize(("seconds", "expected"), [(2.9, 1), (3.1, 3)])
def test_more_profiles_are_taken_where_all_of_them_fit_in_the_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: int
) -> None:
    """Each takes a second."""
    moments = iter([0.0, 1.0])
    monkeypatch.setattr(profiles, "time", SimpleNamespace(perf_counter=lambda: next(moments)))
    taken, _ = profiles.take(Profiled(*[computed(1.0)] * 4), (), seconds)  # type: ignore[arg-type]
    assert taken is not None and taken["taken"] == expected


def test_of_many_spans_the_first_are_stored_and_all_count() -> None:
    many = [Span(CPUS[0], float(i), i + 0.5, "compute", "x") for i in reversed(range(profiles.KEPT + 100))]
    summary = profiles.summary(called(many))
    assert [span[1] for span in summary["spans"]] == [float(i) for i in range(profiles.KEPT)]
    assert summary["count"] == len(many) and summary["busy"] == {"cpu:0": len(many) / 2}


def test_a_profile_that_takes_too_long_is_taken_once() -> None:
    executable = Profiled(computed(90.0))
    taken, _ = profiles.take(executable, (), 0.0)  # type: ignore[arg-type]
    assert taken is not None and taken["taken"] == 1


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ([], "no span in which a device computed"),
        ([Span(CPUS[0], 0.0, 1.0, "transfer", "copy")], "no span in which a device computed"),
        (computed(1.0, start=2.0), "from 2.0 to 1.0 s (matmul on cpu:0)"),
        (computed(math.nan), "from 0.0 to nan s"),
        (computed(math.inf), "from 0.0 to inf s"),
    ],
)
def test_a_profile_that_cannot_be_right_is_a_reason(found: list[Span], reason: str) -> None:
    taken, unprofiled = profiles.take(Profiled(found), (), 1.0)  # type: ignore[arg-type]
    assert taken is None and reason in unprofiled


# --- the ledger -------------------------------------------------------------------------------------------------------


def profile(wall: float, first: tuple[float, float], second: tuple[float, float], copied: float = 0.0) -> Profile:
    """Two devices that computed once each, then a transfer to the end."""
    found = [Span(CPUS[i], *stretch, "compute", "matmul") for i, stretch in enumerate((first, second))]
    found.append(Span(CPUS[0], wall - copied, wall, "transfer", "copy"))
    summary = profiles.summary(called(found))
    return Profile(**{**summary, "spans": [tuple(s) for s in summary["spans"]]})


def scalings(results: Results) -> list[scaling.Scaling]:
    """The ledger of all comparisons of results."""
    return [each for comparison in comparisons(results) for each in scaling.scalings(comparison)]


def pair(
    ones: list[float], manys: list[float], found: Profile | None, own: float | None = None, **fields: Any
) -> list[Measurement]:
    """A backend's measurements on one device and on two. A single time stands for three equal processes."""
    ones, manys = (times * 3 if len(times) == 1 else times for times in (ones, manys))

    one = measured("b", ones, bindings={"dev0": "cpu:0", "dev1": "cpu:0"}, **fields)
    many = measured("b", manys, 2, **{"bindings": BOTH, **fields})
    return [
        measured("b", [], processes=[beside(p, own_cores=own) for p in one.processes], bindings=one.bindings, **fields),
        measured(
            "b", [], 2, **{"bindings": BOTH, **fields}, processes=[change(p, profile=found) for p in many.processes]
        ),
    ]


def test_the_ledger_of_two_devices() -> None:
    (s,) = scalings(of(*pair([2.0, 2.2, 2.1], [1.0, 1.1, 1.2], profile(1.0, (0, 0.8), (0.2, 0.9), 0.1), 1.0)))
    means = math.prod([2.0, 2.2, 2.1]) ** (1 / 3), math.prod([1.0, 1.1, 1.2]) ** (1 / 3)
    assert s.speedup == pytest.approx(means[0] / means[1]) and s.efficiency == pytest.approx(s.speedup / 2)
    assert (s.seconds_of_one, s.seconds_of_many) == pytest.approx(means)
    assert 1.5 < s.ratio.inverse.low < s.speedup < s.ratio.inverse.high < 2.4
    assert s.kind == scaling.SHARING and s.cores_of_one == 1.0 and s.shares is not None
    assert s.shares.idle == pytest.approx({"cpu:0": 0.2, "cpu:1": 0.3})
    assert s.shares.transfers == pytest.approx(0.1) and s.shares.together == pytest.approx(0.6)


def test_two_processes_give_no_interval() -> None:
    (s,) = scalings(of(*pair([2.0, 2.0], [1.0, 1.0], None)))
    assert math.isnan(s.ratio.low) and min(s.ratio.processes) == 2 and s.shares is None
    assert s.ratio.verdict is Verdict.UNKNOWN
    assert ledger.verdict(s, 2).startswith(
        "Too few processes, 2.00 (no interval) times as fast as one device: there is no profile"
    )


def test_environments_of_a_backend_have_a_ledger_each() -> None:
    found = of(*pair([2.0], [1.0], None), *pair([4.0], [3.0], None, environment="b==1"))
    assert [round(s.speedup, 2) for s in scalings(found)] == [2.0, 1.33]
    assert "**b (b==1) on 2 devices**: Faster, 1.33 (1.33 to 1.33) times as fast as one device" in markdown_of(found)


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        (["cpu:0", "cpu:1"], "sharing cores"),
        (["cpu:0", "cpu:0"], "real"),
        (["gpu:0", "gpu:1", "cpu:0"], "real, not equal"),
        (["/job:w/task:0/cpu:0", "/job:w/task:1/cpu:0"], "real"),
        ([], "the program names no device"),
    ],
)
def test_what_several_devices_are(bindings: list[str], expected: str) -> None:
    assert scaling.kind_of(bindings, None) == expected
    assert scaling.kind_of(bindings, 1) == expected.replace("sharing cores", "simulated by cores")


def test_devices_with_cores_of_their_own_are_said_to_be_simulated_by_them() -> None:
    settings = SessionSettings(threads=1, cores_per_device=1)
    measurements = of(*pair([2.0], [1.05], AT_ONCE, 2.0))
    source = whole_of(change(measurements, settings=settings))
    (row,) = (r for r in rows_of(source) if len(r) == 13 and r[0] == "b")
    assert row[-1] == "simulated by cores"
    assert "1 thread a device, each device simulated by as many cores" in source


def test_without_both_sides_there_is_no_ledger() -> None:
    one, two = pair([2.0], [1.0], None)
    other = measured("c", [1.0], 2)
    failed = measured("b", [1.0], 2, status="failed")
    for found in (of(one), of(two), of(one, other), of(one, failed), of(one, measured("b", [], 2))):
        assert scalings(found) == []
        assert "One device against several" not in whole_of(found)


# --- what is said of it -----------------------------------------------------------------------------------------------

AT_ONCE = profile(1.05, (0, 1.0), (0, 1.0))
SHARED = profile(1.98, (0, 1.9), (0, 1.9))
MOVING = profile(2.0, (0, 0.8), (0, 0.8), 1.2)
IN_TURN = profile(2.0, (0, 1.0), (1.0, 2.0))
WAITING = profile(1.5, (0, 1.5), (0, 0.6))
ALWAYS = profile(2.0, (0, 2.0), (0, 2.0))
HIDDEN = profile(2.0, (0, 2.0), (0, 2.0), 1.5)
SLOWED = profile(5.0, (0, 5.0), (0, 5.0))
SAID = [
    (2.0, 1.05, AT_ONCE, 1.0, ") times as fast as one device: both are busy 95 % of the time, both at once 95 %."),
    (
        2.0,
        2.0,
        SHARED,
        1.96,
        "Equal within 0 %, 1.00 (1.00 to 1.00) times as fast as one device: one device already",
    ),
    (
        1.0,
        2.0,
        MOVING,
        1.0,
        "Slower, 0.500 (0.500 to 0.500) times as fast as one device: 60 % of the time is transfers.",
    ),
    (
        2.0,
        2.0,
        IN_TURN,
        1.0,
        "Equal within 0 %, 1.00 (1.00 to 1.00) times as fast as one device: the devices work one after",
    ),
    (2.0, 1.5, WAITING, 1.0, "cpu:0 is busy 100 % and cpu:1 is busy 40 % of the time, both at once 40 %."),
    (2.0, 1.5, WAITING, 1.0, "What is lost: cpu:1 is idle 60 % of the time."),
    (2.0, 2.0, ALWAYS, 1.0, "the profile does not say why, both are busy 100 % of the time, both at once 100 %."),
    (2.0, 2.0, HIDDEN, 1.0, "the profile does not say why, both are busy 100 % of the time"),
    (2.0, 2.0, SLOWED, 1.0, "took 2.5 times as long as the timed ones, so its shares are rough."),
    (
        2.0,
        2.0,
        None,
        2.0,
        ") times as fast as one device: one device already uses both cores (2.0 busy), which",
    ),
    (2.0, 1.0, None, 1.0, ") times as fast as one device: there is no profile that would say why (the results hold no"),
]


@pytest.mark.parametrize(("one", "two", "found", "own", "words"), SAID)
def test_the_verdict_says_what_the_numbers_say(
    one: float, two: float, found: Profile | None, own: float, words: str
) -> None:
    (s,) = scalings(of(*pair([one], [two], found, own)))
    assert words in ledger.verdict(s, 2)


def test_an_interval_that_holds_one_calls_nothing() -> None:
    (s,) = scalings(of(*pair([1.0, 2.0, 3.0], [1.0, 1.4, 3.0], profile(1.0, (0, 1), (0, 1)))))
    assert s.ratio.verdict is Verdict.NOT_TOLD_APART
    assert ledger.verdict(s, 2).startswith("Not told apart (")


def test_a_gain_of_devices_that_never_work_at_once_is_not_theirs() -> None:
    (s,) = scalings(of(*pair([3.0], [2.0], IN_TURN)))
    assert ledger.verdict(s, 2).endswith(
        "gain nothing by being several: the difference comes from elsewhere, noise between processes included; measure "
        "more of them."
    )


@pytest.mark.parametrize(("beside_one", "beside_many"), [(None, 1.8), (0.1, 1.8), (1.8, 0.1)])
def test_a_busy_machine_is_said_to_be_one(beside_one: float | None, beside_many: float) -> None:
    one, many = pair([2.0], [1.05], AT_ONCE)
    one = change(one, processes=[beside(p, beside_one) for p in one.processes])
    many = change(many, processes=[beside(p, beside_many) for p in many.processes])
    (s,) = scalings(of(one, many))
    assert ledger.verdict(s, 2).startswith(
        "Doubtful, as other processes kept 1.8 cores busy meanwhile (end them and measure again): faster, 1.90"
    )


def test_a_device_that_computed_nothing_is_named() -> None:
    alone = Profile(**{**profiles.summary(called(computed(1.0))), "spans": []})
    (s,) = scalings(of(*pair([1.0], [1.0], alone)))
    assert "cpu:1 computed nothing" in ledger.verdict(s, 2)


def test_devices_work_in_turn_also_where_a_third_one_helps_a_little() -> None:
    stretches = [(0.0, 1.0), (1.0, 2.0), (0.0, 0.1)]
    found = [Span(CPUS[i], *stretch, "compute", "x") for i, stretch in enumerate(stretches)]
    stored = Profile(**{**profiles.summary(called(found)), "spans": []})
    many = measured("b", [2.0] * 3, 3, bindings={f"dev{i}": f"cpu:{i}" for i in range(3)})
    many = change(many, processes=[change(p, profile=stored) for p in many.processes])
    (s,) = scalings(of(measured("b", [2.0] * 3), many))
    assert "the devices work one after the other (at once 5 % of the time)" in ledger.verdict(s, 2)


def test_only_devices_that_share_cores_are_kept_from_them_by_the_first() -> None:
    rows = pair([2.0], [2.0], None, 2.0)
    for each, shared in ((None, True), (1, False)):
        (s,) = scalings(of(*rows, settings=SessionSettings(threads=each, cores_per_device=each)))
        assert ("one device already uses both cores" in ledger.verdict(s, 2)) is shared


def test_many_devices_are_said_as_a_range() -> None:
    found = [Span(Device("gpu", i), 0.0, 1.0 - 0.1 * i, "compute", "x") for i in range(6)]
    many = measured("b", [1.0] * 3, 6, bindings={f"dev{i}": f"gpu:{i}" for i in range(6)})
    stored = Profile(**{**profiles.summary(called(found)), "spans": []})
    many = change(many, processes=[change(p, profile=stored) for p in many.processes])
    (s,) = scalings(of(measured("b", [3.0] * 3), many))
    assert s.kind == scaling.REAL
    assert ledger.verdict(s, 8).startswith(
        "Faster, 3.00 (3.00 to 3.00) times as fast as one device: they are busy 50 % to 100 % of the time, at least "
        "two at once 90 %."
    )


# --- from which size --------------------------------------------------------------------------------------------------


def sweep(speedups: dict[int, float], spread: float = 0.0) -> scaling.Sweep:
    """A backend's sweep with these speed-ups by size."""
    rows = []
    for size, speedup in speedups.items():
        rows += pair([speedup * (1 + spread * i) for i in range(3)], [1.0] * 3, None, parameters={"size": size})
    (found,) = scaling.sweeps(scalings(of(*rows)))
    return found


@pytest.mark.parametrize(
    ("speedups", "bracket", "expected"),
    [
        ({128: 0.5, 256: 0.8, 512: 1.2, 1024: 1.9}, (256, 512), "from a size between 256 and 512"),
        ({128: 2.0, 256: 1.5, 512: 1.1, 1024: 0.8}, (1024, 512), "up to a size between 512 and 1024"),
        ({128: 0.5, 256: 1.0, 512: 1.2}, (128, 512), "from a size between 128 and 512"),
        ({128: 0.5, 256: 1.2}, (128, 256), "from a size between 128 and 256"),
        ({128: 1.5, 256: 1.6, 512: 1.7}, None, "at every size measured (128 to 512)"),
        ({128: 0.2, 256: 0.5, 512: 0.9}, None, "shown at no size measured (128 to 512)"),
        ({128: 1.0, 256: 0.98, 512: 1.0}, None, "shown at no size measured (128 to 512)"),
        ({128: 1.0, 256: 1.0, 512: 1.5}, None, "at 512, not shown at 128 and 256"),
        ({128: 1.5, 256: 1.0, 512: 1.0}, None, "at 128, not shown at 256 and 512"),
        ({512: 0.7, 256: 0.8, 128: 1.4, 1024: 1.3}, None, "at 128 and 1024, not shown at 256 and 512"),
        ({128: 0.5, 256: 1.5, 512: 1.0, 1024: 1.9}, None, "at 256 and 1024, not shown at 128 and 512"),
        ({128: 0.5, 256: 1.5, 512: 1.6, 1024: 1.0}, None, "at 256 and 512, not shown at 128 and 1024"),
        ({128: 1.5, 256: 1.0, 512: 0.7, 1024: 0.5}, (512, 128), "up to a size between 128 and 512"),
        ({128: 1.5, 256: 1.0, 512: 1.6}, None, "at 128 and 512, not shown at 256"),
        ({128: 1.5}, None, "at every size measured (128)"),
        ({1000000: 0.5, 1048577: 1.5}, (1000000, 1048577), "from a size between 1000000 and 1048577"),
        ({1000000: 1.5, 1048577: 1.5}, None, "at every size measured (1000000 to 1048577)"),
    ],
)
def test_from_which_size_is_a_bracket_of_measured_ones(
    speedups: dict[int, float], bracket: tuple[float, float] | None, expected: str
) -> None:
    swept = sweep(speedups, spread=0.01)
    assert (swept.bracket, ledger.pays(swept)) == (bracket, expected)


def test_a_bracket_of_a_curve_that_saturates_holds_the_truth() -> None:
    """Two devices begin to pay at 200. The planted fault: a line through the speed-ups reaches 1 elsewhere."""
    sizes = (64, 128, 256, 512, 1024, 2048)
    truth = [2 / (1 + (200 / size) ** 1.5) for size in sizes]
    generator, shown = np.random.default_rng(5), 0
    for _ in range(SESSIONS):
        rows = []
        for size, speedup in zip(sizes, truth, strict=True):
            one, many = np.exp(generator.normal(0, 0.05, (2, 5)))
            rows += pair([float(t) for t in one * speedup], [float(t) for t in many], None, parameters={"size": size})
        (found,) = scaling.sweeps(scalings(of(*rows)))
        if found.bracket is not None:
            shown += 1
            low, high = found.bracket
            assert low <= 200 <= high
    assert shown > 0.9 * SESSIONS
    line = linear_regression([math.log(size) for size in sizes], [math.log(speedup) for speedup in truth])
    assert math.exp(-line.intercept / line.slope) > 256


def test_one_size_is_too_few_and_the_report_says_what_to_type() -> None:
    rows = [*pair([1.0], [2.0], None, parameters={"size": 1})]
    assert "measure more, --size 256,512,1024." in markdown_of(of(*rows))
    rows += pair([3.0], [2.0], None, parameters={"size": 4})
    source = markdown_of(of(*rows))
    assert "measure more" not in source
    (row,) = (r for r in rows_of(source) if r[0] == "b" and len(r) == 4 and ": " in r[2])
    assert row[1:3] == ["2", "1: 0.500, 4: 1.50"]


# --- the section and the pictures -------------------------------------------------------------------------------------


def test_the_section_has_the_numbers_and_the_verdict() -> None:
    found = of(*pair([2.0], [1.05], profile(1.05, (0, 1.0), (0, 1.0)), 1.0))
    source = whole_of(found)
    (row,) = (r for r in rows_of(source) if len(r) == 13 and r[0] == "b")
    assert row[2:] == [
        "2.000 s",
        "1.050 s",
        "1.90 (1.90 to 1.90)",
        "faster",
        "95 %",
        "compute 95 %, transfer 0 %, wait 5 %, launch 0 %",
        "0 %",
        "cpu:0 5 %, cpu:1 5 %",
        "95 %",
        "1.0",
        "sharing cores",
    ]
    assert "**b on 2 devices**: Faster, 1.90 (1.90 to 1.90) times as fast as one device" in source


def test_a_timeline_shows_when_each_device_worked() -> None:
    found = of(*pair([2.0], [1.05], profile(1.05, (0, 1.0), (0, 1.0), 0.02), 1.0))
    data = build(found, None)[1]["timeline-01-matpow.svg"]
    check_svg(data)
    words = data.decode()
    assert all(f">{shown}<" in words for shown in ("cpu:0", "cpu:1", "b, 95 % at once", "time (s)"))
    assert build(found, None)[1]["timeline-01-matpow.svg"] == data


def test_the_timeline_drawn_is_the_typical_one_and_says_its_own_share() -> None:
    """The first process overlapped 42 %; the other two used one device after the other, as the ledger says."""
    one, many = pair([2.0], [1.0], IN_TURN)
    odd = profile(1.0, (0, 0.71), (0.29, 1.0))
    many = change(many, processes=[change(many.processes[0], profile=odd), *many.processes[1:]])
    (comparison,) = comparisons(of(one, many), None)
    (line,) = timelines.timelines(comparison, 2)
    (s,) = scalings(of(one, many))
    assert text.share(line.profile.at_once) == text.share(s.shares.together if s.shares else 1.0) == "0 %"


def test_a_timeline_says_what_it_leaves_out() -> None:
    many = [Span(Device("cpu", i), 0.0, 1.0, "compute", "x") for i in range(20)]
    summary = profiles.summary(called(many))
    stored = Profile(**{**summary, "spans": [tuple(s) for s in summary["spans"]], "count": 25})
    (comparison,) = comparisons(of(*pair([2.0], [1.0], stored)), None)
    (line,) = timelines.timelines(comparison, 2)
    assert len(line.devices) == 16 and line.left_out == "4 more devices and the last 5 of 25 spans"
