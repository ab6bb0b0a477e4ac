"""In which release of a framework something changed: sessions of two releases each, about log2 of all of them.

Each release is measured beside the first one that works, interleaved in one session; at the end the first changed one
beside the one before. What is asked which time says `xbackend.analysis.bisection`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xbackend import environments
from xbackend.analysis import bisection
from xbackend.analysis.answer import in_doubt
from xbackend.analysis.bisection import What
from xbackend.analysis.comparison import Row
from xbackend.analysis.statistics import Ratio, time_of
from xbackend.errors import UsageError, XBackendError
from xbackend.measure import session
from xbackend.measure.candidates import Task
from xbackend.measure.oracle import bind
from xbackend.measure.plan import PRESETS
from xbackend.measure.runner import Opener
from xbackend.measure.worker import open_worker
from xbackend.program.structure import flatten
from xbackend.wording import counted
from xbackend.workloads.agreement import Agreement, verified

MORE = 2  # times the processes, where a release is told from neither end


@dataclass(frozen=True)
class Beside:
    """A release against another one in one session: seconds of both and their ratio, with the ``doubts`` of that
    session (`answer.in_doubt`); of numbers, by how much the results differ, and how much passes."""

    seconds: tuple[float, float] | None = None  # of this one, of the other
    ratio: Ratio | None = None
    difference: float = 0.0
    passes: float = 0.0
    doubts: str = ""

    @property
    def differs(self) -> bool:
        """Whether it is shown that the two differ."""
        return self.ratio.shown if self.ratio is not None else not self.difference <= self.passes


@dataclass(kw_only=True)
class Found:
    """What was found out: of the ``releases`` asked for each one ``beside`` the first that works, or why not.

    ``first`` and ``last`` are the outermost ones that work, empty where no two do. Where they differ, ``low`` is the
    last that is as the first and ``high`` the first that is not, ``step`` the one beside the other; those between could
    not be told.
    """

    releases: Sequence[str]
    beside: dict[str, Beside] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    first: str = ""
    last: str = ""
    low: str = ""
    high: str = ""
    step: Beside | None = None

    @property
    def between(self) -> list[str]:
        """The releases between ``low`` and ``high``."""
        there = list(self.releases)
        return there[there.index(self.low) + 1 : there.index(self.high)] if self.high else []


@dataclass
class Bisection:
    """Looks for the release. ``options`` are those of `session.compare`; ``tolerance`` is by how much numbers may
    differ, left out that of the workload; with ``allow_nan`` NaN in both is no difference."""

    task: Task
    backend: str
    releases: Sequence[str]
    what: What = What.TIME
    devices: int = 1
    tolerance: float | None = None
    allow_nan: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    ready: Callable[..., Any] = environments.sync
    opener: Opener = open_worker

    def __post_init__(self) -> None:
        self.say: Callable[[str], None] = self.options.get("on_progress", lambda _: None)
        self.found = Found(releases=self.releases)
        self._results: dict[str, list[np.ndarray]] = {}

    def run(self) -> Found:
        """Raises `StoreError`, and `UsageError` for numbers that the precision does not determine; a release that does
        not work has its reason."""
        found = self.found
        if self.what is What.NUMBERS and self.tolerance is None and self.task.undetermined:
            why = f"{self.task.label} is not determined in this precision: {self.task.undetermined}"
            raise UsageError(f"{why}; give --tolerance")
        both = bisection.ends(len(self.releases), self._work)
        if both is None:
            return found
        there = self.releases[both[0] : both[1] + 1]
        found.first, found.last = there[0], there[-1]
        if found.beside[found.last].differs:
            low, high = bisection.search(len(there), lambda i: self._changed(there[i]))
            found.low, found.high = there[low], there[high]
            found.step = found.beside[found.high] if low == 0 else self._beside(found.low, found.high)
            if found.step is not None and not found.step.differs and low:
                found.step = self._beside(found.low, found.high, MORE)
        return found

    def _work(self, low: int, high: int) -> tuple[bool, bool]:
        """Whether two releases work, each by itself; where both do, they have been measured."""
        base, head = self.releases[low], self.releases[high]
        if all([self._made(base), self._made(head)]):
            beside = self._beside(base, head)
            if beside is not None:
                self.found.beside[head] = beside
        return base not in self.found.reasons, head not in self.found.reasons

    def _made(self, name: str) -> bool:
        """Whether the environment of a release is there, made now if need be."""
        if name not in self.found.reasons:
            self.say(f"{name}: one of {counted(len(self.releases), 'release')}")
            try:
                self.ready(name, on_progress=self.say)
            except XBackendError as error:
                self.found.reasons[name] = str(error).split("\n")[0]
        return name not in self.found.reasons

    def _changed(self, name: str) -> bool | None:
        """Whether a release has the change that is between the ends; `None` where it cannot be measured, or told."""
        for times in (1, MORE):
            beside = self._beside(self.found.first, name, times) if self._made(name) else None
            if beside is None:
                return None
            self.found.beside[name] = beside
            whole = self.found.beside[self.found.last].ratio
            if beside.ratio is None or whole is None:
                return beside.differs
            known = bisection.changed(beside.ratio, whole)
            if known is not None:
                return known
        self.found.reasons[name] = f"told neither from {self.found.first} nor from {self.found.last}"
        return None

    def _beside(self, base: str, head: str, times: int = 1) -> Beside | None:
        """A release measured beside another one; `None` where that failed, with the reason under its name."""
        if self.what is What.NUMBERS:
            ours, theirs = self._returned(head), self._returned(base)
            if ours is None or theirs is None:
                return None
            said = verified(ours, theirs, self._passes, allow_nan=self.allow_nan or self.task.allow_nan)
            if said.agreement is Agreement.UNVERIFIED:
                self.found.reasons[head] = f"{said.agreement}: {said.reason}"
                return None
            return Beside(difference=said.error if said.error is not None else math.inf, passes=self._passes)
        usual = PRESETS["quick" if self.options.get("quick") else "default"].processes
        processes = times * (self.options.get("processes") or usual)
        results = session.compare(
            [self.task], backends=[self.backend], environments=[base, head], devices=[self.devices], baseline=base,
            opener=self.opener, **{"quick": False, "name": "bisect", **self.options, "processes": processes},
        )  # fmt: skip
        rows = {row.environment: Row(row) for row in results.measurements}
        for name, row in rows.items():
            if row.measurement.status != "ok":
                self.found.reasons[name] = f"{row.measurement.status}: {row.measurement.reason}".split("\n")[0]
        ratio = bisection.change(results, rows[head], rows[base], self.what)
        if ratio is None:
            return None
        timing = self.what is What.TIME
        one, other = (time_of(r.medians if timing else r.compilations) for r in (rows[head], rows[base]))
        timings = [process for row in rows.values() for process in row.processes]
        return Beside((one, other), ratio, doubts=in_doubt(timings, {head: ratio}))

    def _returned(self, name: str) -> list[np.ndarray] | None:
        """What a release computes, in one process; `None` where it fails, with the reason under its name."""
        if name not in self._results:
            self.say(f"{name}: {self.task.label}")
            options = {key: self.options[key] for key in ("threads", "limit", "on_progress") if key in self.options}
            try:
                worker = self.opener(self.backend, environment=name, virtual_devices=self.devices, **options)
                with worker.backend as backend:
                    program = self.task.program
                    where = bind(program, backend, self.devices, self.task.devices_map)
                    run = backend.compile(program, devices=where)
                    self._results[name] = flatten(run(*self.task.inputs), np.asarray)[0]
            except XBackendError as error:
                self.found.reasons[name] = f"failed: {error}".split("\n")[0]
                return None
        return self._results[name]

    @property
    def _passes(self) -> float:
        """The largest difference of numbers that is none."""
        return self.task.tolerance if self.tolerance is None else self.tolerance
