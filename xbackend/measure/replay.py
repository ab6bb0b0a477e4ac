"""The bridge to pytest-benchmark: what was recorded in a worker becomes a benchmark of a test, exactly.

A pytest plugin. A test takes the fixture `replay` and calls it with the seconds of each round; pytest-benchmark then
reads a clock that advances by just those. Nothing is measured in the test's own process.

    def test_matpow(replay, recorded):
        replay(recorded.rounds, recorded.iterations, {"backend": "pytensor"})

A benchmark whose test has not passed is not saved, and a saved run says whether it is complete.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

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


_COMPLETE: pytest.StashKey[bool] = pytest.StashKey()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, Any, Any]:
    """Around pytest-benchmark, which saves and compares in this hook."""
    session.config.stash[_COMPLETE] = exitstatus == pytest.ExitCode.OK and not session.shouldstop
    result = yield
    if session.exitstatus == pytest.ExitCode.OK and _nothing_matched(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """A saved run says whether all that was asked for is in it; it is not after Ctrl-C or a failed test."""
    output_json["xbackend"] = {"complete": config.stash.get(_COMPLETE, False)}


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """pytest-benchmark says nothing when it compares with a run that has no benchmark in common."""
    if _nothing_matched(config):
        terminalreporter.write_line(
            "ERROR: no benchmark of this run is in the saved run that it was compared with; run the same options in "
            "the same directory first, with --benchmark-autosave",
            red=True,
        )


def _nothing_matched(config: pytest.Config) -> bool:
    session: Any = getattr(config, "_benchmarksession", None)
    if session is None or not session.compared_mapping or not session.benchmarks:
        return False
    saved = {name for run in session.compared_mapping.values() for name in run}
    return not any(benchmark.fullname in saved for benchmark in session.benchmarks)
