"""Checks of the clock itself: it waits for the work, and the work is done each time. Runs inside the worker."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xbackend.errors import TimingError

SECOND_WAIT = 0.05  # of a round: what waiting once more may add, before the first wait counts as none
NOISE = 2e-4  # seconds: what waiting once more may add on a busy machine whatever the round
TWICE = 1.5  # what twice the work has to take at least
ATTEMPTS = 5  # a busy machine may spoil a check; a timing that is wrong fails each time
SHORT = 0.1  # seconds: of shorter rounds several are taken, as one may be disturbed
PAUSE = 0.05  # seconds, doubled after each attempt: what spoils a check is often over after a moment
LONGEST_PAUSE = 0.8  # seconds


def attempts(most: int = ATTEMPTS) -> Iterator[int]:
    """Numbers of attempts, with longer and longer pauses between."""
    for number in range(most):
        if number:
            time.sleep(min(PAUSE * 2**number, LONGEST_PAUSE))
        yield number


def seconds_of(call: Callable[[], Any], iterations: int) -> float:
    """Seconds of so many calls, one after the other."""
    start = time.perf_counter()
    for _ in range(iterations):
        call()
    return time.perf_counter() - start


def check_waiting(
    call: Callable[[], Any], fetch: Callable[[Any], Any], iterations: int, expected: float
) -> dict[str, float]:
    """Whether the clock waits for the work: waiting once more after a round adds nothing.

    ``fetch`` copies results to the host, so it waits for them whatever ``call`` did. What it takes right after a round
    is compared with what it takes after a pause as long as the round (``expected`` seconds). The fastest of a few
    counts: other processes only ever add.

    Returns ``second_wait`` (part of a round) and ``device_to_host`` (seconds).
    Raises `TimingError`: what was timed are launches.
    """
    waits: list[float] = []
    copies: list[float] = []
    rounds: list[float] = []
    for _ in attempts():
        for _ in range(3 if expected < SHORT else 1):
            rounds.append(_round_and_fetch(call, fetch, iterations, 0.0, waits))
            _round_and_fetch(call, fetch, 1, min(max(expected, 0.002), 2.0), copies)
        copy = statistics.median(copies)
        extra = max(0.0, min(waits) - copy)
        if extra <= max(SECOND_WAIT * min(rounds), NOISE):
            return {"second_wait": extra / min(rounds), "device_to_host": copy}
    raise TimingError(
        f"the clock does not wait for the work: waiting a second time adds {extra / min(rounds):.0%} of a round "
        f"(at most {SECOND_WAIT:.0%} is right); its synchronize returns too early"
    )


def check_twice(call: Callable[[], Any], iterations: int, rounds: Sequence[float]) -> dict[str, float]:
    """Whether the work is done each time: a round of twice the iterations takes about twice as long.

    ``rounds`` are the seconds of rounds of the iterations, as they were timed. The fastest of each counts, as other
    processes only ever add, or else the medians: where others keep all cores busy, one long round may be let alone when
    no short one was. Returns ``twice`` (ratio). Raises `TimingError`.
    """
    singles, doubles = list(rounds), list[float]()
    for number in attempts(2 * ATTEMPTS):
        if number:  # perhaps the machine has become another one since
            singles += [seconds_of(call, iterations), seconds_of(call, iterations)]
        doubles.append(seconds_of(call, 2 * iterations))
        ratio = max(min(doubles) / min(singles), statistics.median(doubles) / statistics.median(singles))
        if ratio >= TWICE:
            return {"twice": ratio}
    raise TimingError(
        f"the work is not done each time: twice of it takes {ratio:.2f} times as long (at least {TWICE} is right)"
    )


def _round_and_fetch(
    call: Callable[[], Any], fetch: Callable[[Any], Any], iterations: int, pause: float, fetched: list[float]
) -> float:
    """Seconds of a round; the seconds of fetching its last result, after a pause, are appended."""
    start = time.perf_counter()
    for _ in range(iterations):
        results = call()
    took = time.perf_counter() - start
    if pause:
        time.sleep(pause)
    start = time.perf_counter()
    fetch(results)
    fetched.append(time.perf_counter() - start)
    return took
