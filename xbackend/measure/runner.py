"""Blocks of fresh processes: every candidate is measured in each, in shuffled order, and what fails has its reason.

One process measures one backend with one number of devices: all workloads and parameters that are asked for, in
shuffled order. A *block* is one process of each. The session is as many blocks as are asked for, each in an order of
its own, so that a machine that gets slower meets all alike. The parent sleeps while a worker measures. Before each
process it waits for others to leave the cores alone (`patience`), and at the end it measures again what they disturbed.
"""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import xbackend
from xbackend.analysis import statistics
from xbackend.errors import BackendUnavailable, EnvironmentFailed, WorkerDied, WorkerTimeout, XBackendError
from xbackend.measure import machine
from xbackend.measure.candidates import Candidate, Group, accelerator_warnings, awake_warnings, process
from xbackend.measure.files import Files
from xbackend.measure.loop import Effort
from xbackend.measure.measured import Measured
from xbackend.measure.oracle import bind
from xbackend.measure.patience import LONGEST, Patience
from xbackend.measure.plan import Extent
from xbackend.measure.worker import Worker, open_worker
from xbackend.results.runs import Run
from xbackend.results.schema import Measurement, Process, Results, SessionSettings
from xbackend.wording import counted
from xbackend.workers.remote import typed

Progress = Callable[[str], None]
Opener = Callable[..., Worker]
ATTEMPTS = 2  # times that a disturbed process is measured again, at most


def blocks(groups: Sequence[Any], processes: int, seed: int) -> list[Any]:
    """The order of the processes: ``processes`` times all groups, each time shuffled anew."""
    shuffle = shuffler(seed)
    return [group for _ in range(processes) for group in shuffle(groups)]


def shuffler(seed: int) -> Callable[[Sequence[Any]], list[Any]]:
    """Gives a block of its own with each call."""
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
        limit: seconds that a worker may take for one candidate.
        on_progress: gets a line of text whenever something begins that may last.
        wait: see `Patience`; with 0 nothing is measured again either.
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
        on_progress: Progress = lambda _: None,
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
        self.limit, self.say, self.opener = limit, on_progress, opener
        self.patience = Patience(wait, on_progress, self.extent.wait)
        self.store: Run | None = None  # where finished processes are kept
        self.order: list[str] = []
        self.blocks = 0  # finished ones
        self.stopped = ""  # why it ended
        self.seconds = 0.0  # what all of it took
        self.warnings: list[str] = []
        self._took: dict[Group, list[float]] = {}  # seconds of finished processes
        self._hashes: dict[str, str] = {}  # label of a task -> hash of its inputs
        self._within = random.Random(f"within {seed}")

    @property
    def width(self) -> float:
        """The widest of the intervals of the candidates' times, as half of it over the time; infinite without any."""
        widths = [statistics.half_width(c.medians) for c in self.candidates if c.status == "ok"]
        return max(widths, default=float("inf"))

    def run(self) -> None:
        """Measure all; what goes wrong is noted in the candidate that it happened to."""
        with Files() as self._files:
            self._measure_all()

    def _measure_all(self) -> None:
        self.warnings += machine.load_warnings()
        began, shuffle = time.perf_counter(), shuffler(self.seed)
        while not self.stopped:
            groups: dict[Group, list[Candidate]] = {}
            for candidate in self.candidates:
                groups.setdefault(candidate.group, []).append(candidate)
            order = shuffle(list(groups))
            for place, group in enumerate(order):
                wanted = self._wanted()
                waiting = [c for c in groups[group] if c in wanted]
                if waiting:
                    self._wait(began)
                    self._announce(group, order, place)
                    start = time.perf_counter()
                    self._process(group, self._within.sample(waiting, len(waiting)))
                    self._took.setdefault(group, []).append(time.perf_counter() - start)
            self.blocks += 1
            self.seconds = time.perf_counter() - began
            self._stop(order)
        self._measure_again(shuffle, began)
        self.seconds = time.perf_counter() - began

    def _wait(self, began: float) -> bool:
        """Wait for others to leave the cores alone, not beyond the time given; whether they do."""
        given = LONGEST if self.extent.seconds is None else self.extent.seconds - (time.perf_counter() - began)
        return self.patience.wait(max(given, 0.0))

    def _measure_again(self, shuffle: Callable[[Sequence[Any]], list[Any]], began: float) -> None:
        """Measure what others disturbed in new processes, in shuffled order, as long as they now leave the cores alone
        and there is time."""
        blocks = self.seconds - self.patience.waited
        for times in range(ATTEMPTS if self.patience.total else 0):
            processes = self._disturbed(times)
            for number, (group, places) in enumerate(shuffle(processes), 1):
                wanted = self._wanted()
                waiting = [candidate for candidate in places if candidate in wanted]
                if not waiting:
                    continue
                usual = self._estimate([group]) or 0.0
                passed = time.perf_counter() - began
                if not self.extent.allows_again(blocks, passed, self.patience.waited, usual) or not self._wait(began):
                    return
                self.say(f"[again {number}/{len(processes)}] {group.label}: others disturbed it, starting a process")
                self._process(group, self._within.sample(waiting, len(waiting)), places)

    def _disturbed(self, times: int) -> list[tuple[Group, dict[Candidate, int]]]:
        """The processes to measure again, which were so often already: what of each, and in the place of which."""
        found: dict[tuple[Group, int], dict[Candidate, int]] = {}
        for candidate in self._wanted():
            for number, order in enumerate(candidate.disturbed(times)):
                found.setdefault((candidate.group, number), {})[candidate] = order
        return [(group, places) for (group, _), places in found.items()]

    def _announce(self, group: Group, order: Sequence[Group], place: int) -> None:
        following = max(self.extent.processes - self.blocks - 1, 0)  # blocks, after this one
        left = self._estimate([*order[place:], *following * list(order)])
        number, planned = self.blocks * len(order) + place + 1, (self.blocks + 1 + following) * len(order)
        self.say(f"[{number}/{planned}] {group.label}: starting a process{_in_words(left)}")

    def _estimate(self, groups: Iterable[Group]) -> float | None:
        """Seconds that a process of each of these takes, as learned so far; `None` before anything is."""
        known = {group: sum(took) / len(took) for group, took in self._took.items()}
        if not known:
            return None
        usual, waiting = sum(known.values()) / len(known), {candidate.group for candidate in self._wanted()}
        return sum(known.get(group, usual) for group in groups if group in waiting)

    def _wanted(self) -> list[Candidate]:
        """Those that nothing has gone wrong with."""
        return [c for c in self.candidates if c.status == "ok"]

    def _stop(self, order: Sequence[Group]) -> None:
        """Say why no block follows, if none does."""
        if all(candidate.status != "ok" for candidate in self.candidates):
            self.stopped = "no candidate is left"
            return
        width = self.width if self.extent.width is not None and self.blocks >= self.extent.processes else None
        self.stopped = self.extent.reached(self.blocks, self.seconds, self._estimate(order) or 0.0, width)
        if self.stopped and self.blocks < statistics.FEWEST <= self.extent.processes:
            self.warnings.append(
                f"the time given was used up after {counted(self.blocks, 'process', 'processes')} each, too few for a "
                "verdict: give more --minutes, or measure fewer backends or sizes"
            )

    def _process(self, group: Group, waiting: list[Candidate], places: Mapping[Candidate, int] | None = None) -> None:
        """One fresh process for these candidates; another one for the rest if one of them ends it.

        ``places`` are the ``order`` of the disturbed processes in whose place they are measured.
        """
        while waiting:
            begun = {
                "started": time.time(),
                "load": machine.load(),
                "accelerator_processes": machine.accelerator_processes(),
            }
            try:
                worker = self.opener(
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
                missing = isinstance(error, BackendUnavailable | EnvironmentFailed)
                for candidate in waiting:
                    candidate.fail("missing" if missing else "failed", str(error))
                    self._keep(candidate, None)
                return
            with worker.backend:
                waiting = self._in_process(worker, waiting, begun, places or {})

    def _in_process(
        self, worker: Worker, waiting: list[Candidate], begun: dict[str, Any], places: Mapping[Candidate, int]
    ) -> list[Candidate]:
        """Measure in an open worker; the candidates that are left when it has ended early."""
        for position, candidate in enumerate(waiting):
            self.say(f"    {candidate.label}")
            self.order.append(candidate.label)
            new = None
            try:
                new = self._measure(worker, candidate, {**begun, "again": places.get(candidate)})
            except (WorkerDied, WorkerTimeout) as error:
                candidate.fail("failed", str(error))
                self._keep(candidate, None)
                return waiting[position + 1 :]
            except XBackendError as error:
                candidate.fail("failed", str(error))
            self._keep(candidate, new)
        return []

    def _measure(self, worker: Worker, candidate: Candidate, begun: dict[str, Any]) -> Process | None:
        """The new process, if it gave seconds."""
        bindings = bind(candidate.task.program, worker.backend, candidate.devices, candidate.task.devices_map)
        candidate.bindings = {k: str(v) for k, v in bindings.items()}
        job = {**self._job(candidate), "cold": candidate.cold(self.most_cold, begun["again"])}
        began, own = time.perf_counter(), time.process_time()
        measured = typed(worker.call("xbackend.measure.loop:measure", job), Measured)
        candidate.warnings += awake_warnings(time.process_time() - own, time.perf_counter() - began)
        candidate.note(measured, worker, self.threads, self.cores_per_device is not None)
        candidate.warnings += accelerator_warnings(begun["accelerator_processes"])
        known = self._hashes.setdefault(candidate.task.label, measured.inputs)
        if candidate.status == "ok" and known != measured.inputs:
            candidate.fail("wrong", f"its inputs are not those of the other processes ({measured.inputs[:12]})")
        if measured.timed is None or candidate.status != "ok":
            return None
        new = process(measured, measured.timed, candidate, worker, {"order": len(self.order) - 1, **begun})
        candidate.processes.append(new)
        return new

    def _job(self, candidate: Candidate) -> dict[str, Any]:
        return {
            "label": candidate.label,
            "program": candidate.task.text,
            "bindings": candidate.bindings,
            **self._files.of(candidate.task),
            "kept": self._files.kept(candidate),
            "tolerance": candidate.task.tolerance,
            "undetermined": candidate.task.undetermined,
            "allow_nan": candidate.task.allow_nan or self.allow_nan,
            "effort": asdict(self.effort),
        }

    def _keep(self, candidate: Candidate, new: Process | None) -> None:
        """What a process found out, on disk."""
        if self.store is not None:
            self.store.record(candidate.measurement([new] if new is not None else []), candidate.label)

    def results(self, name: str, **asked: Any) -> Results:
        """All rows, in the order of the candidates; ``asked``: settings that the session does not know itself."""
        width = self.width
        settings = SessionSettings(
            processes=self.blocks or self.extent.processes,
            threads=self.threads,
            cores_per_device=self.cores_per_device,
            seed=self.seed,
            effort=asdict(self.effort),
            blocks="one process of each backend and number of devices, in shuffled order",
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
        )


def _in_words(seconds: float | None) -> str:
    """An estimate of the remaining time, to be put behind a sentence."""
    if seconds is None:
        return ""
    return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"
