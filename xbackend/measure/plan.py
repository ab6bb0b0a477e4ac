"""How much is measured: how long each process takes, and how many processes each candidate gets."""

from __future__ import annotations

from dataclasses import dataclass

from xbackend.errors import ArgumentError
from xbackend.measure.loop import Effort
from xbackend.wording import counted

WIDTH = 0.02  # --thorough goes on until each time is known to 2 %: half of its 95 % interval
LONGEST = 60.0  # minutes, where --thorough is given no other time
WITHIN = 180.0  # seconds that --quick promises, without those in which it waits for others
WAIT, QUICK_WAIT = 120.0, 30.0  # seconds in all in which a session waits for others
# Seconds in which a candidate with a cache on disk compiles cold in more processes than the first: a suite of five
# minutes has no time for ten compilations of 20 s. --quick has none at all.
COLD, THOROUGH_COLD = 10.0, 60.0
AGAIN = 0.5  # of the time that the blocks took: for measuring again what others disturbed

QUICK = Effort(rounds=15, at_least=3, round_seconds=0.02, seconds=0.5)
FULL = Effort(rounds=30, at_least=10, round_seconds=0.1, seconds=20.0)


@dataclass(frozen=True)
class Extent:
    """So many processes of each candidate, and more while the widest interval of a time is wider than ``width``.

    ``width`` is half of the interval over the time, 0.02 for 2 %; `None` for no more processes than ``processes``.
    ``seconds`` bounds all of it: a block that would not be finished by then is not begun, but for the first. Nothing is
    measured again that would not be finished ``within`` so many seconds, without those of waiting, which are ``wait``
    in all unless another number is asked for. ``cold`` is that of `Candidate.cold`.
    """

    processes: int
    width: float | None = None
    seconds: float | None = None
    within: float | None = None
    wait: float = WAIT
    cold: float = 0.0

    def reached(self, blocks: int, seconds: float, next_block: float, width: float | None) -> str:
        """Why no more is measured after ``blocks`` finished blocks; empty if more is.

        ``seconds`` have passed, the next block is expected to take ``next_block``; ``width`` is the widest so far.
        """
        each = f"{counted(blocks, 'process', 'processes')} each"
        if blocks >= self.processes:
            if self.width is None or width is None:
                return f"{each}, as planned"
            if width <= self.width:
                return f"every time is known to {self.width:.0%} after {each}"
        if self.seconds is not None and seconds + next_block > self.seconds:
            return f"the time given, {self.seconds / 60:g} minutes, was used up after {each}"
        return ""

    def allows_again(self, blocks: float, passed: float, waited: float, process: float) -> bool:
        """Whether there is time to measure a disturbed process again, which is expected to take ``process`` seconds.

        The ``blocks`` took so many, all of it ``passed``, ``waited`` of them for others. What is measured again takes
        `AGAIN` of what the blocks took, at most.
        """
        end = passed + process
        given = self.seconds is None or end <= self.seconds
        return given and end - waited <= (1 + AGAIN) * blocks and (self.within is None or end - waited <= self.within)


@dataclass(frozen=True)
class Preset:
    """One of the three ways to measure: processes of each candidate at least, and how long each takes."""

    processes: int
    effort: Effort
    width: float | None = None
    minutes: float | None = None
    within: float | None = None
    wait: float = WAIT
    cold: float = COLD

    def extent(self, processes: int | None = None, minutes: float | None = None) -> Extent:
        """Its extent, with another number of processes or another time.

        Raises `ArgumentError` where one of them is not above 0.
        """
        if processes is not None and (type(processes) is not int or processes < 1):
            raise ArgumentError(f"processes={processes!r}: a whole number from 1 up is needed")
        if minutes is not None and not 0 < minutes < 1e6:
            raise ArgumentError(f"minutes={minutes!r}: a number above 0 is needed")
        longest = self.minutes if minutes is None else minutes
        within = self.within if processes is None else None
        seconds = None if longest is None else 60 * longest
        return Extent(processes or self.processes, self.width, seconds, within, self.wait, self.cold)


# Three processes are the fewest that give a verdict; five a side give intervals about 15 % wide, ten about 9 %.
PRESETS = {
    "quick": Preset(3, QUICK, within=WITHIN, wait=QUICK_WAIT, cold=0.0),
    "default": Preset(5, FULL),
    "thorough": Preset(10, FULL, WIDTH, LONGEST, cold=THOROUGH_COLD),
}
