"""Two runs compared: what the gate and the history share, so that they say the same of the same two."""

from __future__ import annotations

from collections.abc import Sequence

from xbackend.analysis.statistics import Floor, noise_floor, time_of
from xbackend.results.recovery import key
from xbackend.results.schema import Measurement, Results


def floor_of(base: Results, head: Results, row: Measurement) -> Floor:
    """The noise floor of a comparison between two runs: the larger one of the two."""
    return max((noise_floor(run.pairs, row) for run in (base, head)), key=lambda floor: floor.factor)


def times_before(head: Results, base: Measurement, runs: Sequence[Results]) -> list[float]:
    """The times of a measurement in the complete runs before ``head``, by which it is known how sessions differ.

    They are runs on the same machine with as many threads, in which it had the versions that ``base`` has: what another
    version changed is no noise.
    """
    found = []
    for run in runs:
        before = run.complete and run.run != head.run and run.created < head.created
        if before and _place(run) == _place(head):
            found += [time for row in run.measurements if _like(row, base) and (time := _time(row)) > 0]
    return found


def _place(run: Results) -> tuple[str, object]:
    return run.machine.fingerprint, run.settings.threads


def _like(row: Measurement, base: Measurement) -> bool:
    return row.status == "ok" and key(row) == key(base) and row.versions == base.versions


def _time(row: Measurement) -> float:
    """Its time; nan without one."""
    return time_of(row.medians)
