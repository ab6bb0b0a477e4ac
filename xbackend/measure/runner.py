"""Generations of fresh processes, which are alive together and take turns; what fails has its reason.

One process measures one backend with one number of devices: all workloads and parameters that are asked for, one after
the other. A *generation* is one process of each, as many as the memory holds, and they take turns (`turns`): each is
visited for a few rounds, in an order that is shuffled each time. The session is as many generations as the question
needs (`question`): what is far behind, or told apart, is in no further one. The parent sleeps while a worker measures.
It waits for others to leave the cores alone (`patience`), and visits again what they disturbed.
"""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import xbackend
from xbackend.analysis import statistics
from xbackend.errors import (
    BackendUnavailable,
    EnvironmentFailed,
    TimingError,
    WorkerDied,
    WorkerTimeout,
    XBackendError,
)
from xbackend.measure import machine
from xbackend.measure.candidates import Candidate, Group, accelerator_warnings, awake_warnings
from xbackend.measure.files import Files
from xbackend.measure.loop import Effort
from xbackend.measure.measured import Finished, Measured, Visited
from xbackend.measure.oracle import bind
from xbackend.measure.patience import LONGEST, Patience
from xbackend.measure.plan import FEWEST, Extent
from xbackend.measure.question import far_behind, nearest_first, unanswered, without_verdict
from xbackend.measure.standing import Watch, standings
from xbackend.measure.turns import Turns
from xbackend.measure.visited import Live
from xbackend.measure.worker import Worker, open_worker
from xbackend.results.runs import NOT_COME_TO, Run
from xbackend.results.schema import Measurement, Process, Results, SessionSettings, Visit
from xbackend.wording import counted
from xbackend.workers.remote import typed

Progress = Callable[[str], None]
Opener = Callable[..., Worker]
Shuffle = Callable[[Sequence[Any]], list[Any]]
PROCESS_MEMORY = 1 << 30  # bytes that a worker with its framework is counted for


def shuffler(seed: int) -> Shuffle:
    """Gives an order of its own with each call."""
    order = random.Random(f"blocks {seed}")
    return lambda groups: order.sample(groups, len(groups))


class Session:
    """Measures candidates.

    Args:
        candidates: what is measured; what is found out is noted in them.
        extent: how many processes each gets, or a number of them.
        threads: of every process; with ``cores_per_device`` of every device of it, each with so many cores.
        seed: of the order, and of the inputs, which the candidates have already.
        effort: how long one process measures one candidate.
        limit: seconds that a worker may take for one request.
        baseline: the backend or environment that all are to be told apart from; where it is not given, the fastest.
        on_progress: gets a line of text whenever something begins that may last.
        watch: gets how far the candidates have come, whenever one has come further.
        wait: see `Patience`.
        refused: rows of what cannot be measured at all, with the reasons.
        allow_nan: NaN where the oracle has it, too, is right.
        cold: see `Candidate.cold`; that of the extent if not given.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        extent: Extent | int,
        threads: int,
        cores_per_device: int | None = None,
        seed: int,
        effort: Effort,
        limit: float | None = 600.0,
        baseline: str | None = None,
        on_progress: Progress = lambda _: None,
        watch: Watch = lambda *_: None,
        opener: Opener = open_worker,
        wait: float | None = None,
        refused: Sequence[Measurement] = (),
        allow_nan: bool = False,
        cold: float | None = None,
    ) -> None:
        self.candidates, self.refused = list(candidates), list(refused)
        self.extent = Extent(extent) if isinstance(extent, int) else extent
        self.most_cold = self.extent.cold if cold is None else cold
        self.threads, self.seed, self.effort = threads, seed, effort
        self.cores_per_device, self.allow_nan = cores_per_device, allow_nan
        self.limit, self.baseline, self.say, self.opener = limit, baseline, on_progress, opener
        self.watch = watch
        self.patience = Patience(wait, on_progress, self.extent.wait)
        self.store: Run | None = None  # where visits and processes are kept
        self.order: list[str] = []
        self.generations = 0  # finished ones
        self.stopped = ""  # why it ended
        self.interrupted = False  # by Ctrl-C
        self.seconds = 0.0  # what all of it took
        self.warnings: list[str] = []
        self._took: dict[Candidate, float] = {}  # seconds up to its first visit, in its last process
        self._turn = 0.0  # seconds of the other visits of a candidate, in the last generation
        self._ahead: list[Candidate] = []  # of this generation, to be started
        self._hashes: dict[str, str] = {}  # label of a task -> hash of its inputs
        self._shuffle = shuffler(seed)
        self._asked: list[Candidate] = []  # of this generation
        self._live: list[Live] = []
        self._turns = Turns(self._open)
        self._begun: dict[Group, dict[str, Any]] = {}  # what was known before its process started

    @property
    def width(self) -> float:
        """The widest of the intervals of the candidates' times, as half of it over the time; infinite without any."""
        widths = [statistics.half_width(c.times) for c in self.candidates if c.status == "ok"]
        return max(widths, default=float("inf"))

    def run(self) -> None:
        """Measure all; what goes wrong is noted in the candidate that it happened to."""
        self.warnings += machine.load_warnings()
        self._began = time.perf_counter()
        with Files() as self._files:
            while not self.stopped:
                wanted = self._asked = self._wanted()
                order, together = self._shuffle(list(dict.fromkeys(c.group for c in wanted))), self._together()
                for first in range(0, len(order), together):
                    if not self.interrupted:
                        self._generation(order[first : first + together], wanted)
                self.generations += 1
                self.seconds = time.perf_counter() - self._began
                self._stop()
        for candidate in self.candidates:
            if candidate.status == "ok" and not candidate.processes:
                candidate.fail("missing", NOT_COME_TO)

    def _wanted(self) -> list[Candidate]:
        """Those that nothing has gone wrong with and that another process would tell something about."""
        well = [c for c in self.candidates if c.status == "ok"]
        if self.extent.fixed or not self.generations:
            return well
        return self._fitting(unanswered(well, self.baseline, self.extent.processes))

    def _fitting(self, wanted: Sequence[Candidate]) -> list[Candidate]:
        """Those that the time left is enough for. The nearest to the fastest come first; `FEWEST` are in any case."""
        if self.extent.seconds is None:
            return list(wanted)
        left, chosen = self.extent.seconds - (time.perf_counter() - self._began), list[Candidate]()
        for candidate in nearest_first(wanted):
            if len(chosen) >= FEWEST and self._takes([*chosen, candidate]) > left:
                break
            chosen.append(candidate)
        return [candidate for candidate in wanted if candidate in chosen]

    def _together(self) -> int:
        """How many processes the memory holds at once, that of the machine and that of each accelerator: each with a
        framework and the arrays of a program."""
        arrays = (sum(a.nbytes for a in (*c.task.inputs, *c.task.expected)) for c in self.candidates)
        free = min([machine.available_memory(), *machine.accelerator_memory()])
        return max(1, free // (PROCESS_MEMORY + 4 * max(arrays, default=0)))

    # --- one generation -----------------------------------------------------------------------------------------------

    def _generation(self, order: Sequence[Group], wanted: Sequence[Candidate]) -> None:
        """One process of each of these groups, for what is wanted of it. Ctrl-C ends it, and what there is counts."""
        with self._turns as turns:
            try:
                here = [c for c in wanted if c.group in order]
                self._ahead = list(here)
                compared = self._shuffle(list(dict.fromkeys(c.task.compared for c in here)))
                self._turn = sum(self._in_turns(turns, order, here, each) for each in compared) / max(len(here), 1)
            except KeyboardInterrupt:
                self.interrupted = True
                for live in self._live:  # their workers are not asked any more
                    self._add(live, live.process())
        self._live = []

    def _in_turns(
        self, turns: Turns[Group], order: Sequence[Group], wanted: Sequence[Candidate], compared: str
    ) -> float:
        """All that is wanted of what is compared: started one after the other, then in turns; the seconds of these."""
        self._live = []
        for place, group in enumerate(order):
            for candidate in (
                c for c in wanted if c.task.compared == compared and c.group == group and c.status == "ok"
            ):
                at = f"[process {self.generations + 1} each, {place + 1}/{len(order)}]"
                self.say(f"{at} {group.label}: starts and compiles{self._left()}")
                start = time.perf_counter()
                self._first_visit(turns, candidate)
                self._ahead.remove(candidate)
                self._took[candidate] = time.perf_counter() - start
        start = time.perf_counter()
        self._take_turns(turns)
        for live in list(self._live):
            self._finish(turns, live)
        return time.perf_counter() - start

    def _open(self, group: Group) -> Worker:
        """A fresh process; raises `XBackendError`."""
        self._wait()
        self._begun[group] = {
            "started": time.time(),
            "load": machine.load(),
            "accelerator_processes": machine.accelerator_processes(self._turns.pids),
        }
        try:
            return self.opener(
                group.backend,
                environment=group.environment,
                virtual_devices=group.devices,
                threads=self.threads,
                cores_per_device=self.cores_per_device,
                own_cache=True,
                limit=self.limit,
                on_progress=self.say,
            )
        except XBackendError as error:
            for candidate in self._asked:  # none of them has to try that again
                if candidate.group == group:
                    self._fail(candidate, error)
            raise

    def _wait(self) -> None:
        """Wait for others to leave the cores alone, not beyond the time given."""
        given = LONGEST if self.extent.seconds is None else self.extent.seconds - (time.perf_counter() - self._began)
        self.patience.wait(max(given, 0.0))

    def _first_visit(self, turns: Turns[Group], candidate: Candidate) -> None:
        """The candidate in its process, visited once; then it lives, unless it is not right or fails."""
        self.say(f"    {candidate.label}")
        self._show(candidate, starting=True)
        self.order.append(candidate.label)
        live, where = None, len(self.order) - 1
        with self._failing(turns, candidate), turns.running(candidate.group) as worker:
            live = self._prepared(worker, candidate, where)
        if live is not None and self._visit(turns, live):
            self._live.append(live)
        elif candidate.status != "ok":
            self._show(candidate)
            self._keep(candidate)

    def _prepared(self, worker: Worker, candidate: Candidate, order: int) -> Live | None:
        """The candidate in a running process, ready to be visited; `None` where it is not right."""
        bindings = bind(candidate.task.program, worker.backend, candidate.devices, candidate.task.devices_map)
        candidate.bindings = {k: str(v) for k, v in bindings.items()}
        began, own = time.perf_counter(), time.process_time()
        measured = typed(worker.call("xbackend.measure.loop:prepare", self._job(candidate)), Measured)
        candidate.warnings += awake_warnings(time.process_time() - own, time.perf_counter() - began)
        candidate.note(measured, worker, self.threads, self.cores_per_device is not None)
        begun = self._begun[candidate.group]
        candidate.warnings += accelerator_warnings(begun["accelerator_processes"])
        known = self._hashes.setdefault(candidate.task.label, measured.inputs)
        if candidate.status == "ok" and known != measured.inputs:
            candidate.fail("wrong", f"its inputs are not those of the other processes ({measured.inputs[:12]})")
        if candidate.status != "ok" or measured.timed is None:
            return None
        return Live(candidate, worker, {"order": order, **begun}, measured, measured.timed)

    def _visit(self, turns: Turns[Group], live: Live) -> bool:
        """Visit it once more; whether that went well. The rounds are kept before they count."""
        candidate, visited = live.candidate, None
        with self._failing(turns, candidate), turns.running(candidate.group) as worker:
            at, began, own = time.time() - live.begun["started"], time.perf_counter(), time.process_time()
            visited = typed(worker.call("xbackend.measure.loop:visit", {}), Visited)
            live.own, live.asked = live.own + time.process_time() - own, live.asked + time.perf_counter() - began
        if visited is None:
            return False
        live.visits.append(Visit(visited.rounds, max(at, 0.0), visited.foreign_cores, visited.own_cores))
        if len(live.visits) == 1:
            self._keep(candidate, live.process())
        elif self.store is not None:
            self.store.visited(live.begun["order"], live.visits[-1])
        self._show(candidate)
        return True

    def _take_turns(self, turns: Turns[Group]) -> None:
        """Visit all as often as they are to be, again where others disturbed a visit. What fails is taken out."""
        while waiting := self._waiting():
            if 2 * sum(live.disturbed for live in waiting) > len(waiting):
                self._wait()
            for live in self._shuffle(waiting):
                if not self._visit(turns, live):
                    self._live.remove(live)

    def _waiting(self) -> list[Live]:
        """Those that are to be visited once more; of what is far behind so far a few visits are enough."""
        waiting = [live for live in self._live if live.wants(self.effort)]
        if self.extent.fixed:
            return waiting
        behind = far_behind({live.candidate: live.time for live in self._live}, self.baseline)
        return [live for live in waiting if live.candidate not in behind or len(live.visits) < self.effort.at_least]

    def _finish(self, turns: Turns[Group], live: Live) -> None:
        found = None
        with self._failing(turns, live.candidate), turns.running(live.candidate.group) as worker:
            found = typed(worker.call("xbackend.measure.loop:finish", {}), Finished)
        self._live.remove(live)
        if found is not None:
            self._add(live, live.finished(found))

    def _add(self, live: Live, process: Process) -> None:
        live.candidate.processes.append(process)
        self._keep(live.candidate, process)

    @contextmanager
    def _failing(self, turns: Turns[Group], candidate: Candidate) -> Iterator[None]:
        """What goes wrong in the block is noted in the candidate; a worker that is gone is forgotten."""
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
        """How far all of the task have come."""
        task = candidate.task.compared
        beside = [one for one in self.candidates if one.task.compared == task]
        self.watch(task, standings(beside, self._live, candidate if starting else None))

    def _job(self, candidate: Candidate) -> dict[str, Any]:
        return {
            "label": candidate.label,
            "program": candidate.task.text,
            "bindings": candidate.bindings,
            **self._files.of(candidate.task),
            "kept": self._files.kept(candidate),
            "cold": candidate.cold(self.most_cold),
            "first": not candidate.processes,
            "profiled": not candidate.processes or candidate.devices > 1,
            "tolerance": candidate.task.tolerance,
            "undetermined": candidate.task.undetermined,
            "allow_nan": candidate.task.allow_nan or self.allow_nan,
            "effort": asdict(self.effort),
        }

    def _keep(self, candidate: Candidate, process: Process | None = None) -> None:
        """What is known of a candidate, and what a process has shown so far, on disk."""
        if self.store is not None:
            self.store.record(candidate.measurement([] if process is None else [process]), candidate.label)

    # --- what is left -------------------------------------------------------------------------------------------------

    def _left(self) -> str:
        """The remaining time in words, to be put behind a sentence: what is learned so far, or the time given."""
        if not self._took:
            return ""
        seconds = self._takes(self._ahead)
        if self.extent.fixed:
            seconds += max(self.extent.processes - self.generations - 1, 0) * self._takes(self._asked)
        elif self.extent.seconds is not None:
            seconds = max(seconds, self.extent.seconds - (time.perf_counter() - self._began))
        about = "about" if self.extent.fixed else "at most about"
        return f", {about} {seconds:.0f} s left" if seconds < 100 else f", {about} {seconds / 60:.0f} min left"

    def _takes(self, candidates: Sequence[Candidate]) -> float:
        """Seconds that another process of each of these takes, as learned so far: as long as the last, but for what it
        compiled where the next one finds that on disk."""
        usual = sum(self._took.values()) / max(len(self._took), 1)
        warm = [c for c in candidates if c.processes and c.processes[-1].cache == "cold" and not c.cold(self.most_cold)]
        found = sum(c.processes[-1].phases.lower or 0.0 for c in warm)
        return sum(self._took.get(c, usual) + self._turn for c in candidates) - found

    def _stop(self) -> None:
        """Say why no generation follows, if none does."""
        if self.interrupted or all(candidate.status != "ok" for candidate in self.candidates):
            self.stopped = "ended by Ctrl-C" if self.interrupted else "no candidate is left"
            return
        wanted = self._wanted()
        width = self.width if self.extent.width is not None and self.generations >= self.extent.processes else None
        fewest = wanted if self.extent.fixed else nearest_first(wanted)[:FEWEST]
        self.stopped = self.extent.reached(self.generations, self.seconds, self._takes(fewest), width, len(wanted))
        few = self.generations < statistics.FEWEST <= self.extent.processes
        if self.stopped and few and without_verdict(self.candidates, self.baseline):
            self.warnings.append(
                f"the time given was used up after {counted(self.generations, 'process', 'processes')} each, too few "
                "for a verdict: give more --minutes, or measure fewer backends or sizes"
            )

    def results(self, name: str, **asked: Any) -> Results:
        """All rows, in the order of the candidates; ``asked``: settings that the session does not know itself."""
        width = self.width
        settings = SessionSettings(
            processes=self.generations or self.extent.processes,
            threads=self.threads,
            cores_per_device=self.cores_per_device,
            seed=self.seed,
            effort=asdict(self.effort),
            blocks="one process of each backend and number of devices, in turns, in shuffled order",
            seconds=self.seconds,
            stopped=self.stopped,
            width=width if width < float("inf") else None,
            allow_nan=self.allow_nan,
            wait=self.patience.total,
            waited=self.patience.waited,
            warnings=list(self.warnings),
            **asked,
        )
        return Results(
            name=name,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            xbackend=xbackend.__version__,
            machine=machine.machine(),
            settings=settings,
            order=list(self.order),
            measurements=[*(candidate.measurement() for candidate in self.candidates), *self.refused],
            run=self.store.name if self.store is not None else "",
            complete=not self.interrupted,
        )
