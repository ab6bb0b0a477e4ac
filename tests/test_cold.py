"""Cold is cold: the compiled code that a process finds, and which of the two compile times is used."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from report_helpers import of

from xbackend.analysis import payoff
from xbackend.analysis.comparison import Row, comparisons
from xbackend.backends.contract import Settings
from xbackend.backends.own_cache import OwnCache
from xbackend.cli import users
from xbackend.measure import session
from xbackend.measure.candidates import Candidate, case
from xbackend.measure.files import Files
from xbackend.measure.loop import Effort
from xbackend.measure.plan import Extent
from xbackend.measure.runner import Session
from xbackend.report.said import payoffs, tables, text
from xbackend.report.said.blocks import Table
from xbackend.results.schema import Measurement, Phases, Process, Visit
from xbackend.workers.remote import RemoteBackend

CASE = case("matpow", size=8)


def process(order: int, lower: float, cache: str = "", call: float = 0.01, **phases: float) -> Process:
    return Process(
        order=order,
        started=float(order),
        iterations=1,
        visits=[Visit([call])],
        phases=Phases(lower=lower, **phases),
        cache=cache,
    )  # type: ignore[arg-type]


def row(backend: str, *processes: Process) -> Measurement:
    return Measurement(
        workload="matpow",
        parameters={},
        backend=backend,
        devices=1,
        bindings={},
        status="ok",
        processes=list(processes),
    )


@pytest.mark.parametrize(
    ("most", "seconds", "cold"),
    [
        (0.0, 1.0, "cwwwwww"),
        (10.0, 1.0, "cwcwcwccccc"),
        (10.0, 6.0, "cwcwwwww"),
        (10.0, 25.0, "cwwwww"),
        (math.inf, 25.0, "cwcwcwccc"),
    ],
)
def test_the_first_compiles_cold_three_warm_and_the_others_as_there_is_time(
    most: float, seconds: float, cold: str
) -> None:
    one = Candidate(CASE, "pytensor-c", 1)
    for number, kind in enumerate(cold):
        assert one.cold(most) is (kind == "c"), number
        one.processes.append(process(number, seconds, "cold" if kind == "c" else "warm"))


def test_a_cache_holds_what_was_kept_and_nothing_else(tmp_path: Path) -> None:
    read: list[list[str]] = []
    folder, kept = tmp_path / "own", tmp_path / "kept"

    def names() -> list[str]:
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    (folder / "modules" / "cutils_ext").mkdir(parents=True)
    (folder / "modules" / "cutils_ext" / "own.so").touch()
    cache = OwnCache(folder, ["cutils_ext"], lambda: read.append(names()))
    cache.keep(kept)
    assert not kept.exists(), "there was nothing to keep"
    (folder / "modules" / "m1").mkdir()
    (folder / "modules" / "m1" / "m1.so").touch()
    cache.keep(kept)
    cache.begin()
    assert names() == ["modules/cutils_ext/own.so"]
    cache.begin(kept)
    assert names() == ["modules/cutils_ext/own.so", "modules/m1/m1.so"]
    assert len(read) == 2 and read[1] == names(), "the framework looks when the files are there"


def test_compile_times_are_those_of_an_empty_cache() -> None:
    measured = row("c", process(0, 2.0, "cold"), process(1, 0.1, "warm"), process(2, 2.2, "cold"))
    found = Row(measured)
    assert found.compilations == (2.0, 2.2) and found.from_cache == (0.1,)
    assert found.phase("lower") == pytest.approx(2.1)
    assert Row(row("jax", process(0, 2.0), process(1, 0.1))).from_cache == ()
    (comparison,) = comparisons(of(measured, row("numpy", process(3, 0.0))))
    wide = tables.figures(comparison)[0]
    assert (wide["compile"], wide["compile from cache"]) == ("2.100 s", "0.1000 s")


def test_the_first_result_counts_the_import_and_the_pay_off_takes_the_cold_one() -> None:
    ours = [
        process(i, c * (1 + i / 1000), kind, call=0.01 * (1 + i / 1000), framework_import=1.0)
        for i, (c, kind) in enumerate([(5.0, "cold"), (0.5, "warm")] * 3)
    ]
    theirs = [process(10 + i, 0.1, call=0.05 * (1 + i / 1000), framework_import=0.2) for i in range(3)]
    (comparison,) = comparisons(of(row("compiled", *ours), row("numpy", *theirs)))
    compiled, numpy = comparison.rows
    assert payoff.first_result(compiled) == pytest.approx(6.0, rel=0.01)
    assert payoff.first_result(compiled, from_cache=True) == pytest.approx(1.5, rel=0.01)
    cold, warm = (payoff.pay_off(compiled, numpy, comparison, from_cache=each) for each in (False, True))
    assert cold is not None and cold.calls == pytest.approx((6.0 - 0.3) / 0.04, rel=0.02)
    assert warm is not None and warm.calls == pytest.approx((1.5 - 0.3) / 0.04, rel=0.02)
    said = str(payoffs.each(comparison))
    assert "142 to 144); from cache 31.0 calls (30.0 to 31.0)" in said


ASKED = """
from pathlib import Path
from xbackend.program.serialization import from_json


def written(backend, programs, kept):
    # How many files each compilation writes: with an empty cache, with what that left, and with an empty one again.
    counts, devices = [], {"dev0": "cpu:0", "dev1": "cpu:0"}
    for number, text in enumerate(programs):
        there = Path(f"{kept}-{number}")
        for begun in (None, there, None):
            backend.cache.begin(begun)
            before = {path for path in backend.cache.folder.rglob("*")}
            backend.compile(from_json(text), devices=devices)
            counts.append(len({path for path in backend.cache.folder.rglob("*")} - before))
            if not there.exists():
                backend.cache.keep(there)
    return counts
"""


@pytest.mark.tier("standard")
@pytest.mark.tier("exhaustive", "pytensor]", "aesara", "theano")
@pytest.mark.parametrize("name", ["pytensor", "pytensor-c", "aesara", "theano"])
def test_a_program_is_compiled_anew_and_then_found_on_disk(name: str, tmp_path: Path) -> None:
    """Even the second program of a process, which needs the same modules as the first."""
    (tmp_path / "asked.py").write_text(ASKED)
    programs = [case("axis_sums", size=size).text for size in (16, 32)]
    with RemoteBackend(name, Settings(own_cache=True), modules={"asked": str(tmp_path / "asked.py")}) as backend:
        counts = backend.call("asked:written", programs, str(tmp_path / "kept"))
    assert [count > 0 for count in counts] == [True, False, True] * 2, counts


@pytest.mark.tier("exhaustive")
def test_a_session_says_of_each_process_what_it_found() -> None:
    one = Candidate(CASE, "pytensor-c", 1)
    effort = Effort(visits=1, at_least=1, seconds=0.1, rounds=2, round_seconds=0.001)
    Session([one], extent=Extent(3), threads=1, seed=0, effort=effort, wait=0, cold=math.inf).run()
    assert [process.cache for process in one.processes] == ["cold", "warm", "cold"], one.reason


@pytest.mark.tier("standard")
def test_a_quick_session_begins_with_what_an_earlier_one_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xbackend.measure.files.compiled", lambda: tmp_path / "compiled")
    monkeypatch.setattr("xbackend.measure.files.LASTING", 1)
    effort = Effort(visits=1, at_least=1, seconds=0.1, rounds=2, round_seconds=0.001)

    def caches(size: int, lasting: bool = True) -> list[str]:
        one = Candidate(case("axis_sums", size=size), "pytensor-c", 1)
        Session([one], extent=Extent(1, lasting=lasting), threads=1, seed=0, effort=effort, wait=0).run()
        return [process.cache for process in one.processes]

    assert [caches(16), caches(16), caches(16, lasting=False), caches(17), caches(16)] == [
        ["cold"], ["warm"], ["cold"], ["cold"], ["cold"],  # only that of 17 is kept
    ]  # fmt: skip
    assert len(list((tmp_path / "compiled").glob("*/*"))) == 1


def test_a_home_in_which_nothing_can_be_kept_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator may have made it for all users."""
    (tmp_path / "file").touch()
    monkeypatch.setattr("xbackend.measure.files.compiled", lambda: tmp_path / "file" / "compiled")
    with Files(lasting=True) as files:
        kept = Path(files.kept(Candidate(CASE, "numpy", 1)))
        assert kept.parent.is_dir() and not kept.is_relative_to(tmp_path)
    assert not kept.parent.exists()


def test_there_is_no_pay_off_where_one_was_not_compiled_anew() -> None:
    compiled = row("c", *(process(i, 0.5, "warm") for i in range(3)))
    (comparison,) = comparisons(of(compiled, row("numpy", *(process(i, 0.1) for i in range(3, 6)))))
    assert payoff.quickest(comparison) is None and not payoffs.each(comparison) and not payoffs.across([comparison])


def test_rewriting_and_compiling_are_parts_of_lower() -> None:
    """Of cold processes; no column if no backend has them."""
    two = [("cold", 2.0, 0.5, 80), ("warm", 0.3, 0.2, 80), ("cold", 2.0, 0.5, 80)]
    rewritten = [
        msgspec.structs.replace(process(i, lower, cache), rewriting=seconds, rewrites=count)
        for i, (cache, lower, seconds, count) in enumerate(two)
    ]
    (comparison,) = comparisons(of(row("c", *rewritten), row("numpy", process(3, 0.1))))
    (shown,) = tables.phases(comparison)
    assert isinstance(shown, Table)
    assert list(shown.headers[-3:]) == ["of lower: rewriting", "compiling", "rewrites"]
    assert [list(cells[-3:]) for cells in shown.rows] == [["500.0 ms", "1.500 s", "80"], [text.NOTHING] * 3]
    (comparison,) = comparisons(of(row("numpy", process(3, 0.1))))
    (shown,) = tables.phases(comparison)
    assert isinstance(shown, Table) and "rewrites" not in shown.headers


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("name", ["pytensor-jax", "aesara", "theano"])
def test_rewrites_are_counted_and_none_where_there_are_none(name: str) -> None:
    counts, made = {}, users.cases("black_scholes", None, {}, quick=True)
    for backend in (name, f"{name}[rewrites=None]"):
        (found,) = session.compare(made, backends=[backend], processes=1, wait=0).measurements
        assert found.status == "ok", found.reason
        (one,) = found.processes
        assert one.rewriting is not None and one.phases.lower is not None and 0 < one.rewriting < one.phases.lower
        counts[backend] = one.rewrites
    assert counts[name] and not counts[f"{name}[rewrites=None]"], counts


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("name", ["numpy", "jax"])
def test_a_backend_that_leaves_nothing_on_disk_has_no_warm_time(name: str) -> None:
    (found,) = session.compare([CASE], backends=[name], processes=2, wait=0).measurements
    assert {process.cache for process in found.processes} == {""}


@pytest.mark.tier("standard")
def test_a_folder_that_the_user_names_is_no_cache_of_a_measured_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTENSOR_FLAGS", f"base_compiledir={tmp_path},optimizer_verbose=False")
    with RemoteBackend("pytensor-c", Settings(own_cache=True)) as backend:
        backend.compile(CASE.program, devices={"dev0": "cpu:0", "dev1": "cpu:0"})
        assert not list(tmp_path.iterdir())
