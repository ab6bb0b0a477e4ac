"""The bridge to pytest-benchmark: what was recorded in a worker becomes a benchmark of a test, exactly.

A pytest plugin. A test takes the fixture `replay` and calls it with the seconds of each round; pytest-benchmark then
reads a clock that advances by just those. Nothing is measured in the test's own process.

    def test_matpow(replay, recorded):
        replay(recorded.rounds, recorded.iterations, {"backend": "pytensor"})

A benchmark whose test has not passed is not saved, and a saved run says whether it is complete. A comparison with one
that is damaged, incomplete or, with ``--benchmark-compare-fail=median:5%``, of another machine ends before anything is
measured; its exit codes are those of ``xbackend gate``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from pytest_benchmark.logger import Logger
from pytest_benchmark.session import PerformanceRegression
from pytest_benchmark.storage.file import FileStorage
from pytest_benchmark.utils import PercentageRegressionCheck, get_machine_id

from xbackend.errors import StoreError
from xbackend.measure import saved, statistics
from xbackend.measure.gate import Limit, Outcome, decision
from xbackend.measure.statistics import Verdict

Replay = Callable[..., None]


class ReplayClock:
    """A clock that stands still until it is told to advance. It starts each round at 0, so that the difference of two
    readings is the recorded number and no rounding of it.
    """

    __name__ = "recorded in a worker"

    def __init__(self) -> None:
        self.reading = 0.0

    def __call__(self) -> float:
        return self.reading

    def reset(self) -> None:
        self.reading = 0.0

    def advance(self, seconds: float) -> None:
        self.reading += seconds


CLOCK = ReplayClock()
MARK = pytest.mark.benchmark(timer=CLOCK)


def feed(benchmark: Any, rounds: Sequence[float], iterations: int = 1, extra: Mapping[str, Any] | None = None) -> None:
    """Give a benchmark the recorded rounds (seconds per iteration), their iterations, and what to store beside them."""
    # A profile, if one is asked for, runs the target once more.
    times: Iterator[float] = itertools.chain(rounds, itertools.repeat(rounds[-1]))

    def setup() -> tuple[tuple[float], dict[str, Any]]:
        CLOCK.reset()
        return (next(times),), {}

    benchmark.extra_info.update(extra or {})
    benchmark.pedantic(CLOCK.advance, setup=setup, rounds=len(rounds))
    if benchmark.stats is not None:  # there are none with --benchmark-disable
        benchmark.stats.iterations = iterations


@pytest.fixture
def replay(benchmark: Any) -> Replay:
    """`feed` for this test's benchmark."""
    if benchmark._timer is not CLOCK:
        raise pytest.UsageError("the fixture replay needs the mark xbackend.measure.replay.MARK on its test or module")
    benchmark.has_error = True  # until the test has passed
    return partial(feed, benchmark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A benchmark is saved once its test has passed, and not if its teardown fails."""
    report = yield
    if "replay" in getattr(item, "fixturenames", ()):
        benchmark = item.funcargs.get("benchmark")  # type: ignore[attr-defined]
        if benchmark is not None and call.when in ("call", "teardown"):
            benchmark.has_error = not (report.passed and (call.when == "call" or not benchmark.has_error))
    return report


_UNSURE: pytest.StashKey[list[tuple[str, str]]] = pytest.StashKey()
_COMPLETE: pytest.StashKey[bool] = pytest.StashKey()
_REGRESSED: pytest.StashKey[bool] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is measured: what is asked for can be compared, with a saved run that is whole."""
    chosen = config.getoption("benchmark_compare", None)
    checks = config.getoption("benchmark_compare_fail", None) or []
    others = sorted({check.field for check in checks} - {"median"})
    if others:
        raise pytest.UsageError(
            f"--benchmark-compare-fail={others[0]}:...: the {others[0]} of two identical runs often differs by more "
            "than a gate allows; compare medians: --benchmark-compare-fail=median:5%"
        )
    if checks and not chosen:
        raise pytest.UsageError("--benchmark-compare-fail needs --benchmark-compare: that says with what")
    if chosen:
        _check_saved(config, chosen)


def _check_saved(config: pytest.Config, chosen: str | bool) -> None:
    """Every saved run that is going to be compared with; ends pytest with an `Outcome` if one cannot be."""
    place = config.getoption("benchmark_storage").removeprefix("file://")
    if "://" in place:
        return  # a server, which keeps its own files
    storage = FileStorage(place, Logger(Logger.NORMAL, config=config), default_machine_id=get_machine_id())
    files = saved.compared(storage, chosen)
    if not files:
        pytest.exit(
            f"there is no saved run {'' if chosen is True else f'{chosen!r} '}in {storage} to compare with; make one "
            "with --benchmark-autosave",
            returncode=Outcome.NOTHING,
        )
    for file in files:
        try:
            saved.check(file)
        except saved.Incomplete as error:
            pytest.exit(str(error), returncode=Outcome.INCOMPLETE)
        except StoreError as error:
            pytest.exit(str(error), returncode=Outcome.STORE)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_compare_machine_info(
    config: pytest.Config, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
) -> None:
    """A gate between different machines is no gate."""
    ours, theirs = saved.fingerprint(machine_info), saved.fingerprint(compared_benchmark["machine_info"])
    if config.getoption("benchmark_compare_fail") and ours != theirs:
        pytest.exit(
            f"no verdict: the saved run is of another machine ({theirs or 'of unknown'}, this is {ours or 'unknown'}); "
            "save one here with --benchmark-autosave, or leave --benchmark-compare-fail out",
            returncode=Outcome.NO_VERDICT,
        )


def pytest_sessionstart(session: pytest.Session) -> None:
    """What is saved is saved whole."""
    benchmarks: Any = getattr(session.config, "_benchmarksession", None)
    if benchmarks is not None and type(benchmarks.storage) is FileStorage:
        path, logger = benchmarks.storage.path, benchmarks.logger
        benchmarks.storage = saved.WholeStorage(path, logger, default_machine_id=benchmarks.machine_id)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, Any, Any]:
    """Around pytest-benchmark, which saves and compares in this hook, and around the summary."""
    session.config.stash[_COMPLETE] = exitstatus == pytest.ExitCode.OK and not session.shouldstop
    result = yield
    if session.exitstatus == pytest.ExitCode.OK:
        if session.config.stash.get(_REGRESSED, False):
            session.exitstatus = Outcome.REGRESSION
        elif session.config.stash.get(_UNSURE, []):
            session.exitstatus = Outcome.NO_VERDICT
        elif _nothing_matched(session.config):
            session.exitstatus = Outcome.NOTHING
    return result


@pytest.hookimpl(optionalhook=True, trylast=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """A saved run says whether all that was asked for is in it; it is not after Ctrl-C or a failed test."""
    saved.seal(output_json, config.stash.get(_COMPLETE, False))


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Generator[None, Any, Any]:
    """pytest-benchmark ends in a traceback where something regressed, and says nothing where nothing matched."""
    config.stash[_UNSURE] = _judge(config)
    try:
        result = yield
    except PerformanceRegression:  # what regressed has been printed
        config.stash[_REGRESSED] = True
        result = None
    for name, reason in config.stash[_UNSURE]:
        terminalreporter.write_line(f"no verdict: {name}: {reason}", red=True)
    if _nothing_matched(config):
        terminalreporter.write_line(
            "ERROR: no benchmark of this run is in the saved run that it was compared with; run the same options in "
            "the same directory first, with --benchmark-autosave",
            red=True,
        )
    return result


def _judge(config: pytest.Config) -> list[tuple[str, str]]:
    """Put the gate's decisions in the place of pytest-benchmark's, which knows no noise; those that cannot be made.

    What holds no medians of processes is left to pytest-benchmark.
    """
    session: Any = getattr(config, "_benchmarksession", None)
    if session is None or not session.compare_fail or not session.compared_mapping:
        return []
    regressed: list[tuple[str, str]] = []
    unsure: list[tuple[str, str]] = []
    for benchmark in session.benchmarks:
        for mapping in session.compared_mapping.values():
            saved_one = mapping.get(benchmark.fullname)
            for check in session.compare_fail if saved_one else ():
                outcome, reason = _decided(benchmark, saved_one, check)
                if outcome is Outcome.REGRESSION:
                    regressed.append((benchmark.name, reason))
                elif outcome is Outcome.NO_VERDICT:
                    unsure.append((benchmark.name, reason))
    session.performance_regressions[:] = regressed
    return unsure


def _decided(benchmark: Any, other: Mapping[str, Any], check: Any) -> tuple[Outcome, str]:
    """What the gate says of a benchmark and its saved one."""
    ours, theirs = benchmark.extra_info, other.get("extra_info", {})
    if not (isinstance(check, PercentageRegressionCheck) and ours.get("processes") and theirs.get("processes")):
        failed = check.fails(benchmark, other["stats"])
        return (Outcome.REGRESSION, failed) if failed else (Outcome.PASSED, "")
    floor = max(float(one.get("floor", 1.0)) for one in (ours, theirs))
    found = statistics.ratio(ours["processes"], theirs["processes"], floor=floor)
    return decision(found, [Limit(Verdict.SLOWER, float(check.threshold))])


def _nothing_matched(config: pytest.Config) -> bool:
    session: Any = getattr(config, "_benchmarksession", None)
    if session is None or not session.compared_mapping or not session.benchmarks:
        return False
    there = {name for run in session.compared_mapping.values() for name in run}
    return not any(benchmark.fullname in there for benchmark in session.benchmarks)
