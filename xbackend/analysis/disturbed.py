"""How many of the visits of a run others disturbed, and which of these count."""

from __future__ import annotations

from dataclasses import dataclass

from xbackend.results.schema import FOREIGN, Results
from xbackend.wording import counted


@dataclass(frozen=True)
class Disturbed:
    """Of so many ``visits`` others ``disturbed`` some; ``counting`` of these count, as all of their process were."""

    visits: int = 0
    disturbed: int = 0
    counting: int = 0

    @property
    def words(self) -> str:
        """A sentence without its full stop; empty where nothing was disturbed."""
        if not self.disturbed:
            return ""
        return (
            f"others used more than {FOREIGN:g} cores during {self.disturbed} of {counted(self.visits, 'visit')}; "
            f"{self.disturbed - self.counting} of these do not count, and {self.counting} do, as all of their process "
            "were disturbed"
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
    processes = [process for row in results.measurements for process in row.processes]
    hit = [sum(visit.disturbed for visit in process.visits) for process in processes]
    counting = sum(number for process, number in zip(processes, hit, strict=True) if process.disturbed)
    return Disturbed(sum(len(process.visits) for process in processes), sum(hit), counting)
