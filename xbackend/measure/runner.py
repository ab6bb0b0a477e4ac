"""Generations of fresh processes, which are alive together and take turns. A failed candidate has its reason.

One process measures one backend with one number of devices: all cases of the session, one after the other. A
*generation* is one process of each, as many at once as the memory holds. They take turns (`turns`): each is visited for
a few rounds, in an order that is shuffled each time. A session has as many generations as the question needs
(`schedule`): a candidate that is far behind, or told apart, is in no further one. The parent sleeps while a worker
measures. It waits until other processes leave the cores alone (`patience`), and repeats visits that they disturbed.
"""

from __future__ import annotations

import datetime
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any

from xbackend.backends import registry
from xbackend.devices import visible_of
from xbackend.errors import (
    BackendUnavailable,
    EnvironmentFailed,
    MachineBusy,
    TimingError,
    WorkerDied,
    WorkerTimeout,
    XBackendError,
)
from xbackend.measure import gpus, machine, variables
from xbackend.measure.candidates import Candidate, Group
from xbackend.measure.files import Files
from xbackend.measure.loop import Effort
from xbackend.measure.oracle import bind
from xbackend.measure.patience import Patience
from xbackend.measure.plan import Extent
from xbackend.measure.question import far_behind
from xbackend.measure.schedule import Schedule
from xbackend.measure.standing import Watch, standings
from xbackend.measure.turns import Turns
from xbackend.measure.visited import Live
from xbackend.measure.worker import SameKind, Worker, open_worker
from xbackend.results.runs import NOT_COME_TO, RunRecorder
from xbackend.results.schema import Measurement, Process, Results, SessionSettings
from xbackend.version import VERSION

PROCESS_MEMORY = 1 << 30  # bytes reserved for a worker with its framework


def shuffler(seed: int) -> Callable[[Sequence[Any]], list[Any]]:
    """Gives an order of its own with each call."""
    order = random.Random(f"blocks {seed}")
    return lambda groups: order.sample(groups, len(groups))


@dataclass(eq=False, repr=False)
class Session:
    """Measures candidates.

    Args:
        candidates: what is measured; the findings are noted in them.
        extent: how many processes each gets.
        threads: of every process; with ``cores_per_device`` of each of its devices, which have so many cores.
        seed: of the order, and of the inputs, which the candidates have already.
        effort: how long one process measures one candidate.
        limit: seconds that a worker may take for one request.
        baseline: the backend or environment that all are to be told apart from; where it is not given, the fastest.
        on_progress: gets a line of text whenever something begins that may last.
        watch: gets the standings, whenever a candidate has come further.
        wait: see `Patience`.
        allow_nan: NaN where the oracle has it, too, is right.
        cold: see `Candidate.cold`; that of the extent if not given.
        kinds: of the devices, accelerators first; see `oracle.first_devices`.
        configured: options that pyproject.toml set, for the results.
    """

    candidates: Sequence[Candidate]
    _: KW_ONLY
    extent: Extent
    threads: int
    cores_per_device: int | None = None
    seed: int
    effort: Effort
    limit: float | None = 600.0
    baseline: str | None = None
    on_progress: Callable[[str], None] = lambda _: None
    watch: Watch = lambda *_: None
    opener: Callable[..., Worker] = open_worker
    wait: float | None = None
    allow_nan: bool = False
    cold: float | None = None
    kinds: Sequence[str] = ()
    configured: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cold = self.extent.cold if self.cold is None else self.cold
        self.schedule = Schedule(self.candidates, self.extent, self.baseline, cold)
        self.patience = Patience(self.wait, self.on_progress, self.extent.wait)
        self._lasting = self.extent.lasting and self.cold is None
        self.store: RunRecorder | None = None  # where visits and processes are kept
        self.order: list[str] = []
        self.stopped = ""  # why it ended
        self.interrupted = False  # by Ctrl-C
        self.seconds = 0.0  # what all of it took
        self.warnings: list[str] = []
        self._hashes: dict[str, str] = {}  # label of a case -> hash of its inputs
        self._shuffle = shuffler(self.seed)
        self.rows: Sequence[Candidate | Measurement] = self.candidates  # of the results, with those that were reused
        self._live: list[Live] = []
        self._turns = Turns(self._open)
        self._number = -1  # of the processes that take turns: of those that do not fit at once each part has its own
        self._begun: dict[Group, dict[str, Any]] = {}  # what was known before its process started
        self._same = SameKind()

    def take(self, rows: Mapping[Candidate, Measurement]) -> None:
        """Before it runs: do not measure these candidates, whose rows another session measured."""
        self.rows = [rows.get(candidate, candidate) for candidate in self.candidates]
        self.candidates = [candidate for candidate in self.candidates if candidate not in rows]
        self.schedule = Schedule(self.candidates, self.extent, self.baseline, self.schedule.cold)
        self.stopped = "" if self.candidates else "every row was measured by an earlier session"

    def run(self) -> None:
        """Measure all; each candidate notes its own failure."""
        pinned = max((c.devices for c in self.candidates), default=1) if self.cores_per_device else 1
        quota = machine.quota_warnings(self.threads, pinned)
        self.warnings += [*machine.load_warnings(), *quota, *variables.warnings(), *gpus.hidden()]
        schedule = self.schedule
        schedule.began = time.perf_counter()
        with Files(self._lasting) as self._files:
            while not self.stopped:
                schedule.asked = schedule.wanted()
                order, together = self._shuffle(list(dict.fromkeys(c.group for c in schedule.asked))), self._together()
                for first in range(0, len(order), together):
                    if not self.interrupted:
                        self._generation(order[first : first + together])
                schedule.generations += 1
                self.stopped, doubt = ("ended by Ctrl-C", "") if self.interrupted else schedule.reached()
                self.warnings += filter(None, [doubt])
            self.seconds = schedule.seconds
        for candidate in self.candidates:
            if candidate.status == "ok" and not candidate.processes:
                candidate.fail("missing", NOT_COME_TO)

    def _together(self) -> int:
        """How many processes, each with a framework and a program's arrays, fit into the memory at once."""
        arrays = (sum(a.nbytes for a in (*c.case.inputs, *c.case.expected)) for c in self.candidates)
        accelerated = any(registry.get(candidate.backend).accelerated for candidate in self.candidates)
        of_gpus = machine.accelerator_memory() if accelerated and list(self.kinds) != ["cpu"] else []
        free = min([machine.available_memory(), *of_gpus])
        return max(1, free // (PROCESS_MEMORY + 4 * max(arrays, default=0)))

    # --- one generation -----------------------------------------------------------------------------------------------

    def _generation(self, order: Sequence[Group]) -> None:
        """One process of each group, for its candidates of this generation. Ctrl-C ends it; finished visits count."""
        here = [c for group in order for c in self.schedule.asked if c.group == group]
        self.schedule.ahead, seconds, self._number = list(here), 0.0, self._number + 1
        with self._turns as turns:
            try:
                for compared in self._shuffle(list(dict.fromkeys(c.case.compared for c in here))):
                    self._live = []
                    for candidate in (c for c in here if c.case.compared == compared and c.status == "ok"):
                        self._start(turns, candidate, f"{order.index(candidate.group) + 1}/{len(order)}")
                    start = time.perf_counter()
                    self._take_turns(turns)
                    seconds += time.perf_counter() - start
            except KeyboardInterrupt:
                self.interrupted = True
                for live in self._live:  # their workers are not asked any more
                    self._add(live, live.process())
        self.schedule.turn = seconds / max(len(here), 1)
        self._live = []

    def _open(self, group: Group) -> Worker:
        self.patience.wait(self.schedule.remaining)
        self._begun[group] = {
            "started": time.time(),
            "load": machine.load(),
            "accelerator_processes": machine.accelerator_processes(self._turns.pids),
        }
        try:
            worker = self.opener(
                group.backend,
                environment=group.environment,
                virtual_devices=group.devices,
                threads=self.threads,
                cores_per_device=self.cores_per_device,
                own_cache=True,
                visible=visible_of(self.kinds, group.devices),
                limit=self.limit,
                on_progress=self.on_progress,
            )
            return self._same.checked(worker, group.backend, group.environment)
        except XBackendError as error:
            for candidate in self.schedule.asked:  # none of them has to try that again
                if candidate.group == group:
                    self._fail(candidate, error)
            raise

    def _start(self, turns: Turns, candidate: Candidate, place: str) -> None:
        """Prepare the candidate in its process and visit it once; then it lives, unless it is wrong or fails."""
        at, start = f"[process {self.schedule.generations + 1} each, {place}]", time.perf_counter()
        self.on_progress(f"{at} {candidate.group.label}: starts and compiles{self.schedule.left()}")
        self.on_progress(f"    {candidate.label}")
        self._show(candidate, starting=True)
        self.order.append(candidate.label)
        live, where = None, len(self.order) - 1
        with self._failing(turns, candidate), turns.running(candidate.group) as worker:
            try:
                live = self._prepared(worker, candidate, where)
            except MachineBusy:  # once more, when it is quiet
                self.patience.wait(self.schedule.remaining)
                live = self._prepared(worker, candidate, where)
        if live is not None and self._visit(turns, live):
            self._live.append(live)
        elif candidate.status != "ok":
            self._show(candidate)
            self._keep(candidate)
        self.schedule.started(candidate, time.perf_counter() - start)

    def _prepared(self, worker: Worker, candidate: Candidate, order: int) -> Live | None:
        """The candidate in a running process, ready to be visited; `None` where it is not right."""
        bindings = bind(
            candidate.case.program, worker.backend, candidate.devices, candidate.case.devices_map, self.kinds
        )
        candidate.bindings = {k: str(v) for k, v in bindings.items()}
        live = Live(candidate, worker, {"order": order, "generation": self._number, **self._begun[candidate.group]})
        measured = live.prepare(self._job(candidate))
        candidate.note(measured, worker, self.threads, self.cores_per_device is not None)
        known = self._hashes.setdefault(candidate.case.label, measured.inputs)
        if candidate.status == "ok" and known != measured.inputs:
            candidate.fail("wrong", f"its inputs are not those of the other processes ({measured.inputs[:12]})")
        return live if candidate.status == "ok" else None

    def _visit(self, turns: Turns, live: Live) -> bool:
        """Visit it once more; returns whether that succeeded. The rounds are kept before they count."""
        visit = None
        with self._failing(turns, live.candidate), turns.running(live.candidate.group):
            visit = live.visit(turns.pids)
        if visit is None:
            return False
        if len(live.visits) == 1:
            self._keep(live.candidate, live.process())
        elif self.store is not None:
            self.store.visited(live.begun["order"], visit)
        self._show(live.candidate)
        return True

    def _take_turns(self, turns: Turns) -> None:
        """Visit all as often as their effort says, again after a disturbed visit. Failures are taken out."""
        while waiting := self._waiting():
            if 2 * sum(live.visits[-1].disturbed for live in waiting) > len(waiting):
                self.patience.wait(self.schedule.remaining)
            for live in self._shuffle(waiting):
                if not self._visit(turns, live):
                    self._live.remove(live)
        for live in list(self._live):
            process = None
            with self._failing(turns, live.candidate), turns.running(live.candidate.group):
                process = live.finish()
            self._live.remove(live)
            if process is not None:
                self._add(live, process)

    def _waiting(self) -> list[Live]:
        """The candidates due for another visit; one that is far behind so far gets only a few."""
        waiting = [live for live in self._live if live.wants(self.effort)]
        if self.extent.fixed:
            return waiting
        behind = far_behind({live.candidate: live.time for live in self._live}, self.baseline)
        return [live for live in waiting if live.candidate not in behind or not live.known(self.effort)]

    def _add(self, live: Live, process: Process) -> None:
        live.candidate.processes.append(process)
        self._keep(live.candidate, process)

    @contextmanager
    def _failing(self, turns: Turns, candidate: Candidate) -> Iterator[None]:
        """Note errors of the block in the candidate; forget a worker that has died."""
        try:
            yield
        except XBackendError as error:
            if isinstance(error, WorkerDied | WorkerTimeout):
                turns.end(candidate.group)
            self._fail(candidate, error)

    def _fail(self, candidate: Candidate, error: XBackendError) -> None:
        missing = isinstance(error, BackendUnavailable | EnvironmentFailed)
        candidate.fail("wrong" if isinstance(error, TimingError) else "missing" if missing else "failed", str(error))
        self._show(candidate)
        self._keep(candidate)

    def _show(self, candidate: Candidate, starting: bool = False) -> None:
        case = candidate.case.compared
        beside = [one for one in self.candidates if one.case.compared == case]
        self.watch(case, standings(beside, self._live, candidate if starting else None))

    def _job(self, candidate: Candidate) -> dict[str, Any]:
        return {
            "label": candidate.label,
            "program": candidate.case.text,
            "bindings": candidate.bindings,
            **self._files.of(candidate.case),
            "kept": (kept := self._files.kept(candidate)),
            "cold": candidate.cold(self.schedule.cold) and not (self._lasting and Path(kept).exists()),
            "first": not candidate.processes,
            "profiled": not candidate.processes or candidate.devices > 1,
            "tolerance": candidate.case.tolerance,
            "undetermined": candidate.case.undetermined,
            "allow_nan": candidate.case.allow_nan or self.allow_nan,
            "effort": asdict(self.effort),
        }

    def _keep(self, candidate: Candidate, process: Process | None = None) -> None:
        """Store a candidate's row, with the visits of a process so far."""
        if self.store is not None:
            self.store.record(candidate.measurement([] if process is None else [process]), candidate.label)

    def results(self, name: str, **asked: Any) -> Results:
        """All rows, in the order of the candidates; ``asked``: settings that the session does not know itself."""
        width = self.schedule.width
        settings = SessionSettings(
            processes=self.schedule.generations or self.extent.processes,
            threads=self.threads,
            cores_per_device=self.cores_per_device,
            seed=self.seed,
            effort=asdict(self.effort),
            blocks="one process of each backend and number of devices, in turns, in shuffled order",
            seconds=self.seconds,
            stopped=self.stopped,
            width=width if width < float("inf") else None,
            allow_nan=self.allow_nan,
            adaptive=not self.extent.fixed,
            kinds=list(self.kinds),
            wait=self.patience.total,
            waited=self.patience.waited,
            variables=variables.chosen(),
            visible=os.environ.get(gpus.VISIBLE),
            warnings=list(self.warnings),
            configured=dict(self.configured),
            **asked,
        )
        return Results(
            name=name,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            xbackend=VERSION,
            machine=machine.machine(),
            settings=settings,
            order=list(self.order),
            measurements=[row.measurement() if isinstance(row, Candidate) else row for row in self.rows],
            run=self.store.name if self.store is not None else "",
            complete=not self.interrupted,
        )
