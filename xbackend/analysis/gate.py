"""The gate: whether a run is slower, or faster, than another one by more than a limit.

The interval of a measurement's ratio (`between_runs.change`) decides: within the limit it passes, beyond the limit it
fails. An interval that holds the limit gives no verdict.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from xbackend.analysis import between_runs, statistics
from xbackend.analysis.answer import in_doubt
from xbackend.analysis.comparison import Row, told_apart
from xbackend.analysis.statistics import Ratio, Verdict, between
from xbackend.errors import StoreError, UsageError
from xbackend.results import naming
from xbackend.results.schema import Key, Measurement, Results, key, key_of
from xbackend.wording import counted, few, join, number, percent, unfinished


class GateOutcome(IntEnum):
    """What a gate says, as the exit code of its command, the worst first; pytest and wrong commands have others."""

    REGRESSION = 10  # something changed by more than the limit
    INCOMPLETE = 11  # something that the baseline has was not measured, or a run is not complete
    STORE = 12  # a run cannot be read: damaged, missing, of a newer version
    NOTHING = 13  # no measurement is in both
    NO_VERDICT = 14  # different machines, threads, variables or inputs, too few processes, or too much noise
    PASSED = 0


_MEANING = {
    GateOutcome.REGRESSION: "beyond the limit",
    GateOutcome.INCOMPLETE: "of BASE not measured in HEAD",
    GateOutcome.NO_VERDICT: "cannot be judged",
    GateOutcome.PASSED: "within the limits",
}
_NINE_OF_TEN = 1.282 / 1.960  # of half an interval: at that further distance a change fails in 9 of 10 cases
_LIMIT = re.compile(r"(slower|faster):(\d{1,6}(?:\.\d{1,6})?)%")


@dataclass(frozen=True)
class Limit:
    """``slower:5%``: more than 1.05 times as long is too much; ``faster:5%``: less than 1 / 1.05 of the time is."""

    verdict: Verdict
    percent: float

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Read ``slower:5%`` or ``faster:5%``. Raises `UsageError`."""
        limit = _LIMIT.fullmatch(text)
        if limit is None:
            raise UsageError(f"{text!r} is no limit: write slower:5% or faster:5%")
        return cls(Verdict(limit[1]), float(limit[2]))

    @property
    def factor(self) -> float:
        return 1 + self.percent / 100

    def ends(self, ratio: Ratio) -> tuple[float, float]:
        """The interval of a ratio turned so that more is worse: its better and its worse end."""
        return (ratio.low, ratio.high) if self.verdict is Verdict.SLOWER else (1 / ratio.high, 1 / ratio.low)

    def found(self, ratio: Ratio) -> float:
        """The smallest change (a factor from 1 up) that such a comparison finds beyond the limit in 9 of 10 cases."""
        return self.factor * math.pow(ratio.smallest, 1 + _NINE_OF_TEN)

    def __str__(self) -> str:
        return f"{self.verdict}:{self.percent:g}%"


@dataclass(frozen=True)
class Judged:
    """One measurement of the baseline: seconds, their ratio, and what the gate says."""

    measurement: Measurement
    outcome: GateOutcome
    reason: str = ""
    base: float | None = None
    head: float | None = None
    ratio: Ratio | None = None

    @property
    def label(self) -> str:
        return label(self.measurement)


@dataclass(frozen=True)
class Judgement:
    """All rows, notes, and the outcome with its reason. `answer.in_doubt` gives ``doubts`` about the whole."""

    outcome: GateOutcome
    reason: str
    rows: list[Judged] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubts: str = ""

    @property
    def sentence(self) -> str:
        """The verdict with its reason and the ratios of the rows that decide it: of a pass, the one furthest from 1."""
        deciding = [row for row in self.rows if row.outcome is self.outcome]
        deciding.sort(key=lambda row: abs(math.log(row.ratio.value)) if row.ratio else 0.0, reverse=True)
        more = few([self._said(row) for row in deciding], 3)
        if self.outcome is GateOutcome.PASSED and deciding:
            more = f"the one furthest from its time in BASE is {self._said(deciding[0])}"
        said = f"{self.doubts}{words(self.outcome)}"
        return f"{said[0].upper()}{said[1:]}: {self.reason}{': ' if more else ''}{more}."

    def _said(self, row: Judged) -> str:
        """A row by what tells it from the others, with its ratio."""
        measurements = [each.measurement for each in self.rows]
        name = naming.label(row.measurement.backend, row.measurement.environment)
        if len({each.devices for each in measurements}) > 1:
            name += f" on {counted(row.measurement.devices, 'device')}"
        if len({(each.workload, key_of(each.parameters)) for each in measurements}) > 1:
            name += f", {told_apart(row.measurement, measurements)}"
        if row.ratio is None:
            return f"{name} ({row.reason})"
        return f"{name} with {number(row.ratio.value)} times the time ({between(row.ratio.low, row.ratio.high)})"


def words(outcome: GateOutcome) -> str:
    """An outcome as it is written."""
    return outcome.name.lower().replace("_", " ")


def judge(
    base: Results, head: Results, limits: Sequence[Limit], running: Collection[str] = (), runs: Sequence[Results] = ()
) -> Judgement:
    """Judge a run by another one, the baseline.

    Measurements are matched by workload, parameters, backend, environment and devices. Those without a time in the
    baseline, or in ``head`` only, are notes. ``running`` has ``"BASE"`` or ``"HEAD"`` where that run is still being
    measured: another incomplete run was cut off. ``runs`` are those of the store: the ones before ``head`` show how
    much sessions differ, unless both are of one.

    Raises:
        StoreError: a run has a measurement twice.
    """
    sides = {"BASE": base, "HEAD": head}
    if different := _different(sides):
        return Judgement(GateOutcome.NO_VERDICT, different)
    ours, theirs = _by_key(head, "HEAD"), _by_key(base, "BASE")
    notes = [f"only in HEAD: {label(row.measurement)}" for at, row in ours.items() if at not in theirs]
    without = [row.measurement for row in theirs.values() if not row.times]
    notes += [f"not measured in BASE: {label(m)}: {m.status}: {m.reason}" for m in without]
    wanted = {at: row for at, row in theirs.items() if row.times}
    cut_off = [(name, run) for name, run in sides.items() if not run.complete]
    partial = [f"{name} ({run.run or run.name}) {unfinished(name in running)}" for name, run in cut_off]
    if not any(at in ours for at in wanted) and not partial:
        nothing = "no measurement of BASE is in HEAD: give both the same options"
        return Judgement(GateOutcome.NOTHING, nothing, [], notes)
    rows = [_judged((base, row), ours.get(at), head, limits, runs) for at, row in wanted.items()]
    if not base.run or base.run != head.run:
        notes += unknown_sessions([row.ratio for row in rows])
    outcome, reason = _overall(rows, partial)
    timings = [p for at, row in wanted.items() for one in (row, ours.get(at)) if one for p in one.processes]
    doubts = in_doubt(timings, [(row.label, row.ratio) for row in rows if row.ratio is not None])
    return Judgement(outcome, reason, rows, notes, doubts)


def label(row: Measurement) -> str:
    """As in ``matpow size=512, n=10 | numpy | 1 device``."""
    name, case = naming.label(row.backend, row.environment), naming.described(row.workload, row.parameters)
    return f"{case} | {name} | {counted(row.devices, 'device')}"


def _different(sides: dict[str, Results]) -> str:
    """Why the two cannot be compared; empty where they can."""
    machines = [(name, run.machine) for name, run in sides.items()]
    prints = {machine.fingerprint for _, machine in machines}
    if "" in prints or len(prints) > 1:
        both = (f"{name} on {m.processor}, {m.cores} cores, {m.system} ({m.fingerprint})" for name, m in machines)
        return f"different machines: {'; '.join(both)}"
    for name in ("threads", "cores_per_device"):
        before, after = (getattr(run.settings, name) for run in sides.values())
        if before != after:
            words, option = name.replace("_", " "), name.replace("_", "-")
            return f"different {words}: BASE with {before}, HEAD with {after}; give both the same --{option}"
    kinds = {name: ",".join(run.settings.kinds) for name, run in sides.items()}
    if kinds["BASE"] != kinds["HEAD"]:
        both = (f"{name} with --devices {found or 'without a kind'}" for name, found in kinds.items())
        return f"different kinds of devices: {' and '.join(both)}; measure both alike"
    variables = {name: run.settings.variables for name, run in sides.items()}
    if variables["BASE"] != variables["HEAD"]:
        both = (f"{name} with {', '.join(map('='.join, found.items())) or 'none'}" for name, found in variables.items())
        return f"different variables that choose a library's code: {' and '.join(both)}; measure both with the same"
    return ""


def _by_key(results: Results, name: str) -> dict[Key, Row]:
    rows: dict[Key, Row] = {}
    for one in results.measurements:
        if key(one) in rows:
            raise StoreError(f"{name} ({results.run or results.name}) has {label(one)} twice: measure it again, once")
        rows[key(one)] = Row(one)
    return rows


def _judged(
    base: between_runs.InRun, now: Row | None, head: Results, limits: Sequence[Limit], runs: Sequence[Results]
) -> Judged:
    before, name = base[1], base[1].measurement
    if now is not None and between_runs.elsewhere(before, now):
        was, is_now = (join(sorted(row.measurement.kinds)) for row in (before, now))
        reason = f"on {was} in BASE, on {is_now} in HEAD: xbackend doctor --gpu says which GPUs are hidden"
        return Judged(name, GateOutcome.NO_VERDICT, reason, before.time, now.time)
    ratio = None if now is None else between_runs.change(base, (head, now), runs)
    if now is None or ratio is None:
        reason = "not in HEAD" if now is None else f"{now.measurement.status}: {now.measurement.reason}"
        return Judged(name, GateOutcome.INCOMPLETE, reason, before.time)
    if now.measurement.reused:
        reason = f"HEAD has it from run {now.measurement.reused} (--reuse): measure it"
        return Judged(name, GateOutcome.NO_VERDICT, reason, before.time, now.time)
    inputs = {row.measurement.parity.inputs for row in (before, now) if row.measurement.parity}
    if len(inputs) > 1:
        return Judged(name, GateOutcome.NO_VERDICT, "other inputs: give both the same --seed", before.time, now.time)
    outcome, reason = decision(ratio, limits)
    return Judged(name, outcome, reason, before.time, now.time, ratio)


def decision(ratio: Ratio, limits: Sequence[Limit]) -> tuple[GateOutcome, str]:
    """The outcome of a ratio of HEAD to BASE under limits, and its reason, empty where it is within them."""
    if ratio.verdict is Verdict.UNKNOWN:
        processes = f"{ratio.processes[1]} in BASE, {ratio.processes[0]} in HEAD"
        return GateOutcome.NO_VERDICT, f"too few processes ({processes}): at least {statistics.FEWEST} each are needed"
    if broken := [limit for limit in limits if limit.ends(ratio)[0] > limit.factor]:
        return GateOutcome.REGRESSION, ", ".join(map(str, broken))
    if open_ := [limit for limit in limits if not limit.ends(ratio)[1] < limit.factor]:
        return GateOutcome.NO_VERDICT, (
            f"{number(ratio.low)} to {number(ratio.high)} holds {', '.join(map(str, open_))}: measure both with more "
            "processes (--thorough) on a quieter machine, or both in one session (--rev), or allow more (--fail)"
        )
    return GateOutcome.PASSED, ""


def power(rows: Sequence[Judged], limits: Sequence[Limit]) -> str:
    """The limits, and the smallest change that is found: the end of a gate's first line."""
    said = f"the limits are {join(map(str, limits))}" if len(limits) > 1 else f"the limit is {limits[0]}"
    found = [limit.found(row.ratio) for limit in limits for row in rows if row.ratio is not None]
    known = [factor for factor in found if math.isfinite(factor)]
    return said + (f", and a change of {percent(max(known))} fails in 9 of 10 cases" if known else "")


def unknown_sessions(ratios: Sequence[Ratio | None]) -> list[str]:
    """A warning that a change may be one of the session, where the store does not show how much sessions differ."""
    count = sum(ratio is not None and not ratio.sessions for ratio in ratios)
    words = (
        f"warning: how much sessions differ is not known for {count} of {counted(len(ratios), 'measurement')}: it "
        f"takes {statistics.FEWEST_SESSIONS} complete runs before HEAD, on this machine with the same versions; a "
        "change may be one of the session"
    )
    return [words] if count else []


def _overall(rows: Sequence[Judged], partial: Sequence[str]) -> tuple[GateOutcome, str]:
    counts = Counter(row.outcome for row in rows)
    worst = next((outcome for outcome in _MEANING if counts[outcome]), GateOutcome.PASSED)
    if partial and worst is not GateOutcome.REGRESSION:
        return GateOutcome.INCOMPLETE, "; ".join(partial)
    return worst, f"{counts[worst]} of {counted(len(rows), 'measurement')} {_MEANING[worst]}"
