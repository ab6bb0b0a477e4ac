"""The candidates of a session's next generation, its estimated time, and why there is none."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from xbackend.analysis import statistics
from xbackend.measure.candidates import Candidate
from xbackend.measure.plan import Extent
from xbackend.measure.question import nearest_first, spreading, unanswered, without_verdict
from xbackend.wording import counted


class Schedule:
    """The finished generations of a session, the next one, and the time left.

    Args:
        baseline: as of `Session`.
        cold: as of `Candidate.cold`.
    """

    def __init__(self, candidates: Sequence[Candidate], extent: Extent, baseline: str | None, cold: float) -> None:
        self.candidates, self.extent, self.baseline, self.cold = candidates, extent, baseline, cold
        self.generations = 0  # finished ones
        self.asked: Sequence[Candidate] = ()  # those of this generation
        self.ahead: list[Candidate] = []  # of these, to be started
        self.began = time.perf_counter()
        self.turn = 0.0  # seconds of a candidate's visits after the first, in the last generation
        self._took: dict[Candidate, float] = {}  # seconds up to its first visit, in its last process

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.perf_counter() - self.began

    @property
    def remaining(self) -> float:
        """Seconds left of the time given, below 0 once it is exceeded; infinite where none is given."""
        return self.extent.seconds - self.seconds

    @property
    def width(self) -> float:
        """The widest of the intervals of the candidates' times, as half of it over the time; infinite without any."""
        return max((statistics.half_width(c.times) for c in self._well()), default=math.inf)

    def _well(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.status == "ok"]

    def wanted(self) -> list[Candidate]:
        """The candidates without a failure that need another process."""
        if self.extent.fixed or not self.generations:
            return self._well()
        return self._fitting(self._open())

    def _open(self) -> list[Candidate]:
        return unanswered(self._well(), self.baseline, self.extent.processes)

    def _fitting(self, wanted: Sequence[Candidate]) -> list[Candidate]:
        """As many as fit into the time left, the nearest to the fastest first."""
        early = self.generations < statistics.FEWEST  # without those of `spreading` there is no verdict at all
        left, chosen = self.remaining, spreading(self._well(), self.baseline) if early else []
        for candidate in nearest_first([candidate for candidate in wanted if candidate not in chosen]):
            if self._takes([*chosen, candidate]) > left:
                break
            chosen.append(candidate)
        return [candidate for candidate in wanted if candidate in chosen]

    def started(self, candidate: Candidate, seconds: float) -> None:
        """Note the seconds of its process up to the first visit."""
        self.ahead.remove(candidate)
        self._took[candidate] = seconds

    def _takes(self, candidates: Sequence[Candidate]) -> float:
        """Estimated seconds of another process of each, as of its last one; code on disk is not compiled again."""
        usual = sum(self._took.values()) / max(len(self._took), 1)
        warm = [c for c in candidates if c.processes and c.processes[-1].cache == "cold" and not c.cold(self.cold)]
        found = sum(c.processes[-1].phases.lower or 0.0 for c in warm)
        return sum(self._took.get(c, usual) + self.turn for c in candidates) - found

    def left(self) -> str:
        """The remaining time as the end of a sentence: the estimate, or the time given."""
        if not self._took:
            return ""
        seconds = self._takes(self.ahead)
        if self.extent.fixed:
            seconds += max(self.extent.processes - self.generations - 1, 0) * self._takes(self.asked)
        elif self.extent.seconds < math.inf:
            seconds = max(seconds, self.remaining)
        left = f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"
        if self.extent.fixed:
            return f", {left}"
        unknown = any(candidate not in self._took for candidate in self.ahead)
        return f", at most {left}" + (", unless it compiles for longer" if unknown else "")

    def reached(self) -> tuple[str, str]:
        """Why no generation follows, empty if one does; and a warning where that was too soon."""
        if not self._well():
            return "no candidate is left", ""
        each, enough = counted(self.generations, "process", "processes"), self.generations >= self.extent.processes
        why = self._as_planned(each, enough) if self.extent.fixed else self._answered(each, enough)
        few = self.generations < statistics.FEWEST <= self.extent.processes
        if not (why and few and without_verdict(self.candidates, self.baseline)):
            return why, ""
        return why, (
            f"the time given was used up after {each} each, too few for a verdict: give more --minutes, or measure "
            "fewer backends or sizes"
        )

    def _as_planned(self, each: str, enough: bool) -> str:
        if enough and self.extent.width is None:
            return f"{each} each, as planned"
        if enough and self.extent.width is not None and self.width <= self.extent.width:
            return f"every time is known to {self.extent.width:.0%} after {each} each"
        return self._used_up(f"{each} each") if self._takes(self._well()) > self.remaining else ""

    def _answered(self, each: str, enough: bool) -> str:
        still, of_open = self._open(), f"{each} of what was still open"
        if enough:
            return f"{of_open}, as planned"
        if not still:
            return f"every comparison is decided after {each}"
        return "" if len(self._fitting(still)) >= min(2, len(still)) else self._used_up(of_open)

    def _used_up(self, measured: str) -> str:
        minutes, cases = self.extent.seconds / 60, len({c.case.label for c in self.candidates})
        over = f" for {cases} workloads or sizes together" if cases > 1 else ""
        more = f"more with --minutes {math.ceil(2 * minutes)}"
        return f"the time given, {minutes:g} minutes{over}, was used up after {measured}; {more}"
