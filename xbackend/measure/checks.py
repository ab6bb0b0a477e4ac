"""Checks of the clock itself: it waits for the work, and the work is done each time. Runs inside the worker."""

from __future__ import annotations

import operator
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from xbackend.cores import FOREIGN
from xbackend.errors import MachineBusy, TimingError, XBackendError
from xbackend.measure.load import foreign_load

SECOND_WAIT = 0.05  # of a round: the most that a second wait may add
NOISE = 2e-4  # seconds: a second wait may add them on a busy machine, however short the round
TWICE = 1.5  # least time of twice the work, over that of the work
AHEAD, PAIRS = 3, 15  # lead of the pairs that confirm the work, and most pairs
ATTEMPTS = 5  # a busy machine may spoil a check; a timing that is wrong fails each time
SHORT = 0.1  # seconds: of shorter rounds several are taken, as one may be disturbed
SLOW = 1.0  # seconds: of rounds so long one pair is enough
PAUSE = 0.05  # seconds, doubled after each attempt: what spoils a check is often over after a moment
LONGEST_PAUSE = 0.8  # seconds


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

    ``fetch`` copies results to the host, so it waits for them whatever ``call`` did. Its time right after a round is
    compared with its time after a pause as long as the round (``expected`` seconds). The fastest of a few counts: other
    processes only ever add.

    Returns ``second_wait`` (part of a round) and ``device_to_host`` (seconds). Raises as `_refused`: it timed launches.
    """
    waits, copies, rounds = list[float](), list[float](), list[float]()
    with foreign_load() as others:
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(min(PAUSE * 2**attempt, LONGEST_PAUSE))
            for _ in range(3 if expected < SHORT else 1):
                rounds.append(_round_and_fetch(call, fetch, iterations, 0.0, waits))
                _round_and_fetch(call, fetch, 1, min(max(expected, 0.002), 2.0), copies)
            copy = statistics.median(copies)
            extra = max(0.0, min(waits) - copy)
            if extra <= max(SECOND_WAIT * min(rounds), NOISE):
                return {"second_wait": extra / min(rounds), "device_to_host": copy}
    raise _refused(
        f"the clock does not wait for the work: waiting a second time adds {extra / min(rounds):.0%} of a round "
        f"(at most {SECOND_WAIT:.0%} is right); its synchronize returns too early",
        others[0],
    )


def check_twice(call: Callable[[], Any], iterations: int, rounds: Sequence[float]) -> dict[str, float]:
    """Whether the work is done each time: a round of twice the iterations takes about twice as long.

    A pair is a round, then one of twice the iterations; it confirms the work or not. The check ends once `AHEAD` more
    pairs confirm than not; one pair is enough for rounds of `SLOW`, as work that is remembered takes no second. After
    `PAIRS` the fastest rounds decide, as others only ever add. Where a third of all rounds takes twice as long by
    chance, remembered work passes in 2 % of cases (``tests/test_measure.py``). ``rounds`` are the seconds of timed
    rounds. Unless it is below `SHORT`, their median is the first of each pair until a pair does not confirm. Returns
    ``twice`` (the median ratio). Raises as `_refused`.
    """
    typical, singles, doubles, ahead = statistics.median(rounds), list[float](), list[float](), 0
    anew = typical < SHORT
    with foreign_load() as others:
        while len(doubles) < PAIRS:
            if ahead < 0:  # the machine's speed may be changing
                time.sleep(min(PAUSE * 2 ** len(doubles), LONGEST_PAUSE))
                seconds_of(call, iterations)  # after a sleep the first round of the pair would be slow
            singles.append(seconds_of(call, iterations) if anew else typical)
            doubles.append(seconds_of(call, 2 * iterations))
            right = doubles[-1] >= TWICE * singles[-1]
            ahead += 1 if right else -1
            if ahead >= (1 if min(singles) >= SLOW else AHEAD):
                return {"twice": statistics.median(map(operator.truediv, doubles, singles))}
            anew = anew or not right  # the machine's speed may have changed since the rounds were timed
    ratio = min(doubles) / min(singles)
    if ratio >= TWICE:
        return {"twice": ratio}
    raise _refused(
        f"the work is not done each time: twice of it takes {ratio:.2f} times as long (at least {TWICE} is right)",
        others[0],
    )


def _refused(why: str, others: float) -> XBackendError:
    """`TimingError`, or `MachineBusy` where ``others`` kept so many cores busy that noise may be the reason."""
    if others <= FOREIGN:
        return TimingError(why)
    return MachineBusy(
        f"this may be noise, as others kept {others:.1f} cores busy: {why}; measure again when they leave them alone"
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
