"""Waiting until other processes leave the cores alone: bounded for each process and for the session, and shown.

`xbackend.measure.load` gives the load of others: `/proc/stat` without this process and its ended children. So it is
read while no worker runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from xbackend import cores
from xbackend.errors import ArgumentError
from xbackend.measure.load import foreign_load
from xbackend.measure.plan import WAIT

VARIABLE = "XBACKEND_WAIT"
LONGEST = 60.0  # seconds of one wait
LOOK, AGAIN = 0.1, 1.0  # seconds over which the cores are looked at: before each process, and while it waits
SHOWN = 10.0  # seconds between two lines of progress


class Patience:
    """A session's budget of waiting: ``total`` seconds in all, 0 for none.

    The default is the variable `XBACKEND_WAIT`, else ``usual``. Raises `ArgumentError` for another value than a number
    of seconds.
    """

    def __init__(self, total: float | None, say: Callable[[str], None], usual: float = WAIT) -> None:
        self.total = _seconds(os.environ.get(VARIABLE) or usual, f"${VARIABLE}") if total is None else total
        self.total = _seconds(self.total, "wait")
        self.waited, self._say = 0.0, say

    def wait(self, most: float = LONGEST) -> None:
        """Wait until others leave the cores alone, ``most`` seconds or what is left."""
        used = _used(LOOK) if self.total else 0.0
        if used <= cores.FOREIGN:
            return
        most, began, shown = min(most, LONGEST, self.total - self.waited), time.monotonic(), float("-inf")
        while used > cores.FOREIGN and (passed := time.monotonic() - began) < most:
            if passed - shown >= SHOWN:
                shown = passed
                self._say(f"waiting until other processes leave the cores alone: {_words(used)} (at most {most:.0f} s)")
            used = _used(min(AGAIN, max(most - passed, LOOK)))
        self.waited += time.monotonic() - began
        if used > cores.FOREIGN and most > 0:
            self._say(f"other processes do not leave the cores alone: {_words(used)}")


def _used(seconds: float) -> float:
    """How many cores others keep busy over the next seconds."""
    with foreign_load() as others:
        time.sleep(seconds)
    return others[0]


def _words(used: float) -> str:
    there = cores.count()
    return f"they use {used:.1f} of {there} core{'s' if there > 1 else ''}"


def _seconds(given: object, what: str) -> float:
    try:
        seconds = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise ArgumentError(f"{what}={given!r}: a number of seconds from 0 up is needed, 0 to wait for nobody")
    return seconds
