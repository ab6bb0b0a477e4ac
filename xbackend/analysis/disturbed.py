"""The visits of a run that other processes disturbed, and how many of them count."""

from __future__ import annotations

from xbackend.cores import FOREIGN
from xbackend.results.schema import Results
from xbackend.wording import counted


def quiet(results: Results) -> list[str]:
    """How long a session waited for other processes, and the visits that they disturbed; nothing on a quiet machine."""
    waited = results.settings.waited
    said = f"waited {waited:.0f} s for other processes to leave the cores alone" if waited else ""
    return [*filter(None, [said, disturbed(results)])]


def disturbed(results: Results) -> str:
    """The disturbed visits, as a sentence without its full stop; empty without any."""
    processes = [process for row in results.measurements for process in row.processes]
    visits = [visit for process in processes for visit in process.visits]
    hit = sum(visit.disturbed for visit in visits)
    counting = sum(len(process.visits) for process in processes if process.disturbed)
    said = f"others used more than {FOREIGN:g} cores during {hit} of {counted(len(visits), 'visit')}; "
    left = f"{hit - counting} do not count"
    said += left if not counting else f"{left}, {counting} count, as their process has no others"
    return said if hit else ""
