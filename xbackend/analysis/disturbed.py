"""How many of the processes of a run others disturbed, how many were measured again, and which count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xbackend.results.schema import FOREIGN, Process, Results, attempts
from xbackend.wording import counted


@dataclass(frozen=True)
class Disturbed:
    """Counted in timings, one for each candidate in a process: of ``places`` that were planned ``disturbed`` ones,
    ``again`` of them measured again, ``replaced`` of them by one that others left alone."""

    places: int = 0
    disturbed: int = 0
    again: int = 0
    replaced: int = 0

    @property
    def words(self) -> str:
        """A sentence without its full stop; empty where nothing was disturbed."""
        if not self.disturbed:
            return ""
        of = f"others used more than {FOREIGN:g} cores during {self.disturbed} of {counted(self.places, 'timing')}"
        return (
            f"{of}: measured again {self.again}, replaced by an undisturbed one {self.replaced}, counting all the same "
            f"{self.disturbed - self.replaced}"
        )


def quiet(results: Results) -> list[str]:
    """How long a session waited for other processes, and what they disturbed; nothing on a quiet machine."""
    waited, said = results.settings.waited, disturbed(results).words
    return [
        *([f"waited {waited:.0f} s for other processes to leave the cores alone"] if waited else []),
        *filter(None, [said]),
    ]


def disturbed(results: Results) -> Disturbed:
    """What others disturbed of a run."""
    tried = [each for row in results.measurements for each in attempts(row.processes)]
    hit = [each for each in tried if each[0].disturbed]
    return Disturbed(len(tried), len(hit), sum(len(each) > 1 for each in hit), sum(map(_replaced, hit)))


def _replaced(tried: Iterable[Process]) -> bool:
    return any(not process.disturbed for process in tried)
