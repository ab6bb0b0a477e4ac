"""A candidate in one live process: what was found out before its first visit, and its visits so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from xbackend.measure.candidates import Candidate, affinity_warnings, awake_warnings
from xbackend.measure.loop import Effort
from xbackend.measure.measured import Finished, Measured, Timed
from xbackend.measure.worker import Worker
from xbackend.results.schema import Memory, Phases, Process, Profile, Visit, figure
from xbackend.workers.remote import typed

AGAIN = 1.5  # times the visits of an effort, and its time: with those that others disturbed, which are made again


@dataclass(eq=False)
class Live:
    """What a process has shown of a candidate. ``begun`` is what was known before it started, as `Process` has it."""

    candidate: Candidate
    worker: Worker
    begun: Mapping[str, Any]
    measured: Measured
    timed: Timed
    visits: list[Visit] = field(default_factory=list)
    own: float = 0.0  # processor seconds of the parent in the ``asked`` seconds of all visits
    asked: float = 0.0

    def wants(self, effort: Effort) -> bool:
        """Whether it is to be visited once more."""
        alone = [visit for visit in self.visits if not visit.disturbed]
        if len(alone) >= effort.visits or len(self.visits) >= AGAIN * effort.visits:
            return False
        used = len(alone) >= effort.at_least and self._seconds(alone) >= effort.seconds
        used_up = len(self.visits) >= effort.at_least and self._seconds(self.visits) >= AGAIN * effort.seconds
        return not (used or used_up)

    def _seconds(self, visits: list[Visit]) -> float:
        """In timed rounds."""
        return self.timed.iterations * sum(sum(visit.rounds) for visit in visits)

    @property
    def disturbed(self) -> bool:
        """Whether others disturbed the last visit."""
        return bool(self.visits) and self.visits[-1].disturbed

    @property
    def time(self) -> float:
        """Seconds: what `Process.time` will be."""
        return figure(self.visits)

    def finished(self, found: Finished) -> Process:
        """The process after its last visit; what it says of the candidate is noted there."""
        if not self.candidate.processes:
            self.candidate.unprofiled, self.candidate.memory_unknown = found.unprofiled, found.memory_unknown
        self.candidate.warnings += [*found.warnings, *affinity_warnings(found.affinity, self.worker.cores)]
        self.candidate.warnings += awake_warnings(self.own, self.asked)
        return self.process(
            profile=None if found.profile is None else typed(found.profile, Profile),
            memory=None if found.memory is None else typed(found.memory, Memory),
            affinity=found.affinity,
            compiled=found.compiled,
        )

    def process(self, **found: Any) -> Process:
        """The process as the results hold it, with its visits so far and what else was ``found``."""
        measured, timed, worker = self.measured, self.timed, self.worker
        phases = Phases(
            process_start=worker.process_start,
            framework_import=worker.framework_import,
            trace=self.candidate.task.seconds,
            lower=measured.lower,
            first_call=measured.first_call,
            host_to_device=timed.host_to_device,
            call=median(seconds for visit in self.visits for seconds in visit.rounds),
            device_to_host=timed.device_to_host,
        )
        return Process(
            iterations=timed.iterations,
            visits=self.visits,
            phases=phases,
            checks=timed.checks,
            cache=measured.cache,
            rewriting=measured.rewriting and measured.rewriting[0],
            rewrites=measured.rewriting and measured.rewriting[1],
            **self.begun,
            **found,
        )
