"""Bisects n releases of a framework for a change: about log2(n) sessions, each of two or three releases.

A session measures a release beside the first and the last working one, interleaved, until it is shown to be nearer to
one of them. Sessions of their own then measure the first changed release beside its predecessor.
`xbackend.analysis.bisection` chooses the next release.
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
from xbackend.devices import numbers_and_kinds, visible_of
from xbackend.errors import UsageError, XBackendError
from xbackend.measure import session
from xbackend.measure.candidates import WARM, Case
from xbackend.measure.oracle import bind
from xbackend.measure.plan import PRESETS
from xbackend.measure.worker import open_worker
from xbackend.program.structure import flatten
from xbackend.wording import counted
from xbackend.workloads.agreement import Agreement, verified

ENDS = 2  # times a session's processes, for the last release beside the first: without a change there is no search
TIMES = (1, 1, 2)  # times a session's processes, in each further session of a release that is still undecided


@dataclass(frozen=True)
class Beside:
    """A release beside another in one session: seconds of both, their ratio, and the session's ``doubts``
    (`answer.in_doubt`). For compile times also the ratio ``from_cache``; for numbers the ``difference`` of the results,
    and the largest one that ``passes``."""

    seconds: tuple[float, float] | None = None  # of this one, of the other
    ratio: Ratio | None = None
    from_cache: Ratio | None = None
    difference: float = 0.0
    passes: float = 0.0
    doubts: str = ""

    @property
    def differs(self) -> bool:
        """Whether it is shown that the two differ."""
        return self.ratio.shown if self.ratio is not None else not self.difference <= self.passes


@dataclass(kw_only=True)
class Found:
    """The outcome: each of the ``releases`` ``beside`` the first working one, or the reason why not.

    ``first`` and ``last`` are the outermost working releases, empty where no two work. If they differ, the change is
    shown to come after ``low``, and in ``high`` at the latest; ``step`` is ``high`` beside ``low``.
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
        """The releases between ``low`` and ``high``, which may have the change, too."""
        there = list(self.releases)
        return there[there.index(self.low) + 1 : there.index(self.high)] if self.high else []


@dataclass
class Bisection:
    """The search. ``options`` are those of `session.compare`; ``tolerance`` is the largest difference of numbers, by
    default the workload's."""

    case: Case
    backend: str
    releases: Sequence[str]
    what: What = What.TIME
    devices: Sequence[int | str] = (1,)
    tolerance: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.say: Callable[[str], None] = self.options.get("on_progress", lambda _: None)
        self.found = Found(releases=self.releases)
        self._results: dict[str, list[np.ndarray]] = {}
        self.passes = self.case.tolerance if self.tolerance is None else self.tolerance

    def run(self) -> Found:
        """Search; a release that does not work has its reason. Raises `StoreError`, and `UsageError` for numbers that
        the precision does not determine."""
        found = self.found
        if self.what is What.NUMBERS and self.tolerance is None and self.case.undetermined:
            why = f"{self.case.label} is not determined in this precision: {self.case.undetermined}"
            raise UsageError(f"{why}; give --tolerance")
        both = bisection.ends(len(self.releases), self._work)
        if both is None:
            return found
        there = self.releases[both[0] : both[1] + 1]
        found.first, found.last = there[0], there[-1]
        if found.beside[found.last].differs:
            brackets = bisection.search(len(there), lambda i: self._changed(there[i]))
            # The narrowest bracket whose ends are shown to differ in a session of their own.
            for low, high in reversed(brackets):
                found.low, found.high = there[low], there[high]
                found.step = self._step(found.low, found.high)
                if found.step is not None:
                    break
        return found

    def _step(self, low: str, high: str) -> Beside | None:
        """One release beside an earlier one, if the change between the ends is shown between these two."""
        if (low, high) == (self.found.first, self.found.last):
            return self.found.beside[high]
        for times in TIMES[1:]:
            beside = self._beside(low, high, times)
            if beside is None:
                return None
            if beside.differs and (beside.ratio is None or (beside.ratio.value > 1) is self._slower):
                return beside
        return None

    def _work(self, low: int, high: int) -> tuple[bool, bool]:
        """Whether two releases work, each by itself; where both do, they have been measured."""
        base, head = self.releases[low], self.releases[high]
        if all([self._made(base), self._made(head)]):
            self._note(base, head, ENDS)
        return base not in self.found.reasons, head not in self.found.reasons

    def _made(self, name: str) -> bool:
        """Whether the environment of a release is there, made now if need be."""
        if name not in self.found.reasons:
            self.say(f"{name}: one of {counted(len(self.releases), 'release')}")
            try:
                environments.sync(name, on_progress=self.say)
            except XBackendError as error:
                self.found.reasons[name] = str(error).split("\n")[0]
        return name not in self.found.reasons

    def _changed(self, name: str) -> bool | None:
        """Whether a release has the change between the ends; `None` where it cannot be measured or decided."""
        if not self._made(name):
            return None
        first, last = self.found.first, self.found.last
        if self.what is What.NUMBERS:
            return self._note(first, name)
        sessions: list[bisection.Times] = []
        for times in TIMES:
            rows = self._measured([first, name, last], times)
            beside = self._compared(rows[first], rows[name])
            if beside is None or not self._seconds(rows[last]):
                return None
            self.found.beside[name] = beside
            sessions.append((self._seconds(rows[name]), self._seconds(rows[first]), self._seconds(rows[last])))
            known = bisection.nearer(sessions, self._slower)
            if known is not None:
                return known
        self.found.reasons[name] = f"not shown to be nearer to {first} or to {last}"
        return None

    def _note(self, base: str, head: str, times: int = 1) -> bool | None:
        """Whether a release measured beside another one differs, noted; `None` where that failed."""
        beside = self._beside(base, head, times)
        if beside is None:
            return None
        self.found.beside[head] = beside
        return beside.differs

    def _beside(self, base: str, head: str, times: int = 1) -> Beside | None:
        """A release measured beside another one; `None` where that failed, with the reason under its name."""
        if self.what is not What.NUMBERS:
            rows = self._measured([base, head], times)
            return self._compared(rows[base], rows[head])
        ours, theirs = self._returned(head), self._returned(base)
        if ours is None or theirs is None:
            return None
        said = verified(ours, theirs, self.passes, allow_nan=self.options.get("allow_nan") or self.case.allow_nan)
        if said.agreement is Agreement.UNVERIFIED:
            self.found.reasons[head] = f"{said.agreement}: {said.reason}"
            return None
        return Beside(difference=said.error if said.error is not None else math.inf, passes=self.passes)

    def _measured(self, names: Sequence[str], times: int) -> dict[str, Row]:
        """The rows of a session of these releases; one that failed has its reason."""
        usual = PRESETS["quick" if self.options.get("quick") else "default"].each
        processes = times * (self.options.get("processes") or usual)
        more: dict[str, Any] = {}
        if self.what is What.COMPILE:  # as many as asked for compile cold
            processes, more = processes + min(processes, len(WARM)), {"cold": math.inf}
        results = session.compare(
            [self.case], backends=[self.backend], environments=names, devices=self.devices, baseline=names[0],
            **{"quick": False, "name": "bisect", **self.options, "processes": processes, **more},
        )  # fmt: skip
        rows = {row.environment: Row(row) for row in results.measurements}
        for name, row in rows.items():
            if row.measurement.status != "ok":
                self.found.reasons[name] = f"{row.measurement.status}: {row.measurement.reason}".split("\n")[0]
        return rows

    def _compared(self, base: Row, head: Row) -> Beside | None:
        ratio = bisection.change(head, base, self.what)
        if ratio is None:
            return None
        compiling = self.what is What.COMPILE
        cached = bisection.change(head, base, self.what, from_cache=True) if compiling else None
        timings = [process for row in (base, head) for process in row.processes]
        seconds = time_of(self._seconds(head)), time_of(self._seconds(base))
        return Beside(seconds, ratio, cached, doubts=in_doubt(timings, [(head.measurement.environment, ratio)]))

    def _seconds(self, row: Row) -> Sequence[float]:
        """The compared seconds of each process."""
        return row.times if self.what is What.TIME else row.compilations

    @property
    def _slower(self) -> bool:
        """Whether the last release is slower than the first."""
        whole = self.found.beside[self.found.last].ratio
        return whole is not None and whole.value > 1

    def _returned(self, name: str) -> list[np.ndarray] | None:
        """The results of a release, in one process; `None` where it fails, with the reason under its name."""
        if name not in self._results:
            self.say(f"{name}: {self.case.label}")
            options = {key: self.options[key] for key in ("threads", "limit", "on_progress") if key in self.options}
            try:
                (count, *_), kinds = numbers_and_kinds(self.devices)
                opener = self.options.get("opener", open_worker)
                seen = visible_of(kinds, count)
                worker = opener(self.backend, environment=name, virtual_devices=count, visible=seen, **options)
                with worker.backend as backend:
                    program = self.case.program
                    where = bind(program, backend, count, self.case.devices_map, kinds)
                    run = backend.compile(program, devices=where)
                    self._results[name] = flatten(run(*self.case.inputs), np.asarray)[0]
            except XBackendError as error:
                self.found.reasons[name] = f"failed: {error}".split("\n")[0]
                return None
        return self._results[name]
