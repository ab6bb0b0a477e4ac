"""How much is measured: how long each process takes, and how many processes each candidate gets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from xbackend.errors import ArgumentError
from xbackend.measure.loop import Effort

WIDTH = 0.02  # --thorough goes on until each time is known to 2 %: half of its 95 % interval
LONGEST = 3600.0  # seconds, where --thorough is given no other time
WAIT, QUICK_WAIT = 120.0, 30.0  # seconds in all that a session waits for others
# Seconds of cold compilation for a candidate with a cache on disk, beyond its first process: a suite of five minutes
# has no time for ten compilations of 20 s. --quick has none at all.
COLD, THOROUGH_COLD = 10.0, 60.0
EACH = 0.2  # of a session's time: added for each further workload, or size of one

QUICK = Effort(visits=12, at_least=3, seconds=1.0)
FULL = Effort(visits=20, at_least=5, seconds=2.0)


@dataclass(frozen=True)
class Extent:
    """So many processes of each candidate, and more while the widest interval of a time is wider than ``width``.

    ``width`` is half of the interval over the time, 0.02 for 2 %; `None` for no more than ``processes``. Unless
    ``fixed``, ``processes`` is the maximum: candidates that are far behind, or told apart in all comparisons, get
    fewer. ``seconds`` bounds the session: a generation that would end later is not begun, except for the first and,
    unless fixed, the second, without which nothing can be said. ``wait`` is the default total of `Patience`, in
    seconds. ``cold``: see `Candidate.cold`. Where ``lasting``, compiled code is kept for later sessions.
    """

    processes: int
    width: float | None = None
    seconds: float = math.inf
    wait: float = WAIT
    fixed: bool = True
    cold: float = 0.0
    lasting: bool = False


@dataclass(frozen=True)
class Preset:
    """One of the three ways to measure: its ``most``, the effort of a process, and ``each``, the processes of each
    candidate where all get the same number."""

    most: Extent
    effort: Effort
    each: int

    def extent(self, processes: int | None = None, minutes: float | None = None, workloads: int = 1) -> Extent:
        """Its extent for so many workloads, or sizes of one, with another number of processes or another time.

        Raises `ArgumentError` where one of them is not above 0.
        """
        if processes is not None and (type(processes) is not int or processes < 1):
            raise ArgumentError(f"processes={processes!r}: a whole number from 1 up is needed")
        if minutes is not None and not 0 < minutes < 1e6:
            raise ArgumentError(f"minutes={minutes!r}: a number above 0 is needed")
        fixed = self.most.fixed or processes is not None
        usual = self.most.seconds * (1 + EACH * (workloads - 1)) if self.most.fixed or processes is None else math.inf
        seconds = usual if minutes is None else 60 * minutes
        lasting, number = self.most.lasting and not fixed, processes or self.most.processes
        return replace(self.most, processes=number, seconds=seconds, fixed=fixed, lasting=lasting)


# Three processes are the fewest that give a verdict; candidates told apart by then get no more.
PRESETS = {
    "quick": Preset(Extent(10, None, 90.0, QUICK_WAIT, fixed=False, lasting=True), QUICK, 3),
    "default": Preset(Extent(10, None, 300.0, fixed=False, cold=COLD), FULL, 5),
    "thorough": Preset(Extent(10, WIDTH, LONGEST, cold=THOROUGH_COLD), FULL, 10),
}
