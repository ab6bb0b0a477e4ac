"""Two runs compared, for the gate and the history, so that both say the same of the same two."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xbackend.analysis.comparison import Row, level_of
from xbackend.analysis.family import ratio
from xbackend.analysis.statistics import Ratio
from xbackend.results.schema import Measurement, Results, key

InRun = tuple[Results, Row]


def change(base: InRun, head: InRun, runs: Sequence[Results]) -> Ratio | None:
    """The time in a later run over that in an earlier one; `None` where one of them has none, or is `elsewhere`.

    ``runs`` show how sessions differ.
    """
    if not (head[1].times and base[1].times) or elsewhere(base[1], head[1]):
        return None
    earlier = times_before(head[0], base[1].measurement, runs)
    if not head[0].run or head[0].run != base[0].run:
        return ratio(head[1].times, base[1].times, earlier=earlier)
    together = [head[1].generations, base[1].generations]  # both revisions of `gate --rev` are in one run
    return ratio(head[1].times, base[1].times, earlier=earlier, generations=together, level=level_of(head[0]))


def times_before(head: Results, base: Measurement, runs: Sequence[Results]) -> list[float]:
    """The times of a measurement in the complete runs before ``head``, which show how sessions differ.

    These runs have the machine and the threads of ``head``, and the program and the versions of ``base``: a change of
    code or of a version is no noise.
    """
    earlier = [run for run in runs if run.complete and run.run != head.run and run.created < head.created]
    rows = [row for run in earlier if place_of(run) == place_of(head) for row in run.measurements]
    same = [row for row in rows if key(row) == key(base) and not elsewhere(Row(base), Row(row))]
    alike = [row for row in same if (row.program, row.versions) == (base.program, base.versions)]
    times = [Row(row).time for row in alike]
    return [time for time in times if time is not None]


def elsewhere(base: Row, head: Row) -> bool:
    """Whether two rows are of other kinds of devices, as without the GPUs that CUDA_VISIBLE_DEVICES hides."""
    before, now = base.measurement.kinds, head.measurement.kinds
    return bool(before and now and before != now)


def place_of(run: Results) -> Hashable:
    """What two runs need in common for their times to be compared: the machine, the threads, the cores and the kinds of
    devices, and the variables that choose code."""
    asked, chosen = run.settings, tuple(sorted(run.settings.variables.items()))
    return run.machine.fingerprint, asked.threads, asked.cores_per_device, tuple(asked.kinds), chosen
