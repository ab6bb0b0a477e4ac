"""A candidate in one live process: requests, answers, and its visits so far."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from xbackend.measure.candidates import Candidate, accelerator_warnings, affinity_warnings, awake_warnings
from xbackend.measure.loop import Effort
from xbackend.measure.measured import Finished, Measured
from xbackend.measure.worker import Worker
from xbackend.results.schema import Memory, Phases, Process, Profile, Visit, figure
from xbackend.workers.remote import typed

AGAIN = 1.5  # times the visits and the seconds of an effort: the most, with repeats of disturbed visits
T = TypeVar("T")


@dataclass(eq=False)
class Live:
    """The findings of a process about a candidate. ``begun`` are the fields of `Process` known before its start.

    Requests raise the errors of the worker.
    """

    candidate: Candidate
    worker: Worker
    begun: Mapping[str, Any]
    measured: Measured = field(init=False)  # once it is prepared
    visits: list[Visit] = field(default_factory=list)
    own: float = 0.0  # processor seconds of this process, which should sleep, in the ``asked`` seconds
    asked: float = 0.0

    def prepare(self, job: dict[str, Any]) -> Measured:
        """Compile and compare, as `xbackend.measure.loop.prepare` says."""
        self.candidate.warnings += accelerator_warnings(self.begun["accelerator_processes"])
        self.measured = self._ask("prepare", job, Measured)
        return self.measured

    def visit(self, session: Collection[int] = ()) -> Visit:
        """Visit it once more; ``session`` are the process ids of all workers of the session."""
        at = max(time.time() - self.begun["started"], 0.0)
        self.visits.append(Visit(at=at, **self._ask("visit", {"session": sorted(session)}, dict)))
        return self.visits[-1]

    def _ask(self, function: str, job: dict[str, Any], kind: type[T]) -> T:
        began, own = time.perf_counter(), time.process_time()
        answer = typed(self.worker.call(f"xbackend.measure.loop:{function}", job), kind)
        self.own, self.asked = self.own + time.process_time() - own, self.asked + time.perf_counter() - began
        return answer

    def wants(self, effort: Effort) -> bool:
        """Whether it is to be visited once more."""
        alone = [visit for visit in self.visits if not visit.disturbed]
        if len(alone) >= effort.visits or len(self.visits) >= AGAIN * effort.visits:
            return False
        used = len(alone) >= effort.at_least and self._seconds(alone) >= effort.seconds
        used_up = len(self.visits) >= effort.at_least and self._seconds(self.visits) >= AGAIN * effort.seconds
        return not (used or used_up)

    def known(self, effort: Effort) -> bool:
        """Whether it needs no more visits if it is far behind. ``at_least`` are enough, and so are two without a
        disturbance that fill the ``seconds`` of the effort."""
        alone = [visit for visit in self.visits if not visit.disturbed]
        return len(self.visits) >= effort.at_least or (len(alone) > 1 and self._seconds(alone) >= effort.seconds)

    def _seconds(self, visits: list[Visit]) -> float:
        return self.measured.iterations * sum(sum(visit.rounds) for visit in visits)

    @property
    def time(self) -> float:
        """Seconds: what `Process.time` will be."""
        return figure(self.visits)

    def finish(self) -> Process:
        """The process after its last visit; the candidate notes its warnings."""
        found = self._ask("finish", {}, Finished)
        if not self.candidate.processes:
            self.candidate.unprofiled, self.candidate.memory_unknown = found.unprofiled, found.memory_unknown
        self.candidate.warnings += [*found.warnings, *affinity_warnings(found.affinity, self.worker.cores)]
        self.candidate.warnings += awake_warnings(self.own, self.asked)
        return self.process(
            profile=None if found.profile is None else typed(found.profile, Profile),
            memory=None if found.memory is None else typed(found.memory, Memory),
            affinity=found.affinity,
            compiled=found.compiled,
            gpus=found.gpus or None,
        )

    def process(self, **found: Any) -> Process:
        """The process as the results hold it, with its visits so far and what else was ``found``."""
        measured, worker = self.measured, self.worker
        phases = Phases(
            process_start=worker.process_start,
            framework_import=worker.framework_import,
            trace=self.candidate.case.seconds,
            call=median(seconds for visit in self.visits for seconds in visit.rounds),
            **measured.phases,
        )
        return Process(
            iterations=measured.iterations,
            visits=self.visits,
            phases=phases,
            checks=measured.checks,
            cache=measured.cache,
            rewriting=measured.rewriting and measured.rewriting[0],
            rewrites=measured.rewriting and measured.rewriting[1],
            **self.begun,
            **found,
        )
