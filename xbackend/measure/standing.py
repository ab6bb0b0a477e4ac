"""A session's progress for a watcher: a row for each candidate of the case that is measured now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xbackend.analysis import statistics
from xbackend.measure.candidates import Candidate
from xbackend.measure.visited import Live
from xbackend.results import naming
from xbackend.wording import counted

WAITING, STARTING, MEASURED = "waits", "starts and compiles", "measured"


@dataclass(frozen=True)
class Standing:
    """A candidate so far: ``seconds`` is its time, `None` without one; ``width`` half of its interval over that,
    infinite with fewer than three processes; ``visits`` are those of all its processes; ``failed`` is why it has no
    time."""

    name: str
    state: str
    seconds: float | None = None
    width: float = float("inf")
    processes: int = 0
    visits: int = 0
    failed: str = ""


Watch = Callable[[str, Sequence[Standing]], None]  # gets the label of a case, and its candidates


def standings(candidates: Sequence[Candidate], live: Sequence[Live], starting: Candidate | None) -> list[Standing]:
    """A row for each candidate, the fastest first, then those without a time."""
    rows = [
        _standing(one, next((each for each in live if each.candidate is one), None), starting) for one in candidates
    ]
    return sorted(rows, key=lambda row: (row.seconds is None, row.seconds or 0.0))


def _standing(candidate: Candidate, live: Live | None, starting: Candidate | None) -> Standing:
    several = "" if candidate.devices == 1 else f" on {counted(candidate.devices, 'device')}"
    name = naming.label(candidate.backend, candidate.environment) + several
    if candidate.status != "ok":
        return Standing(name, candidate.status, failed=candidate.reason)
    times = [*candidate.times, *([live.time] if live is not None and live.visits else [])]
    visits = sum(len(process.visits) for process in candidate.processes) + (len(live.visits) if live is not None else 0)
    state = STARTING if candidate is starting else MEASURED if times else WAITING
    seconds = statistics.time_of(times) if times else None
    return Standing(name, state, seconds, statistics.half_width(times), len(times), visits)
