"""A job from one start of all its tasks to the next, as a state machine. A method enters each state.

| state   | what is there                                          | then                                      |
|---------|--------------------------------------------------------|-------------------------------------------|
| started | every process, joined with the others                  | met                                       |
| met     | the records of the servers, the program of each worker | in step                                   |
| in step | steps, together or each worker for itself; checkpoints | ended, or lost                            |
| lost    | the loss: its task, step and cause                     | again: one worker, or all by a new start  |
| again   | a new process of the lost worker, at its next step;    | in step                                   |
|         | the others go on meanwhile                             |                                           |
| ended   | the variables, every update applied once               |                                           |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any, TypeVar

import numpy as np

from xbackend.cluster import starting, status
from xbackend.cluster.job_results import SECONDS_KEPT, STEPS_KEPT, JobResults, TaskLoss
from xbackend.cluster.jobspec import JobSpec
from xbackend.cluster.programs import ProgramHandle, Programs, loaded, shapes
from xbackend.cluster.starting import TaskBackend
from xbackend.cluster.supervisor import LOOK, Lost, Supervisor, begun
from xbackend.cluster.worker import CHUNK, Batch, WorkerProgress
from xbackend.engines.record import Applied
from xbackend.engines.spec import CHIEF, SERVER, WORKER, ClusterSpec, Task
from xbackend.errors import ClusterError, WorkerDied, WorkerError, WorkerTimeout
from xbackend.program.structure import flatten, unflatten
from xbackend.training import checkpoints
from xbackend.training.checkpoints import Checkpoint

T = TypeVar("T")
SEVERAL = 1.0  # seconds between checkpoints of several servers: all tasks wait for one
AT_ONCE = 1 << 25  # bytes of the batches that a task is sent at once; one batch alone may be larger
SMALL = 256  # bytes of the largest outputs that are kept for every step


class Attempt:
    """All tasks, started at a checkpoint. ``newest`` is the newest checkpoint so far: its model is the fingerprint of
    the programs, its step the one that every worker has reached."""

    def __init__(
        self,
        asked: JobSpec,
        *,
        spec: ClusterSpec,
        programs: Programs,
        ran: JobResults,
        newest: Checkpoint,
        tell: status.Tell,
    ) -> None:
        self.asked, self.spec, self.programs, self.layouts = asked, spec, programs, programs.layouts
        self.ran, self.newest, self.tell = ran, newest, tell
        self.workers = {task: WorkerProgress(task, newest.step) for task in spec.tasks if task.job == WORKER}
        self.servers = [task for task in spec.tasks if task.job == SERVER]
        self.chief = next((task for task in spec.tasks if task.job == CHIEF), None)
        self.pids: dict[Task, int] = {}
        self.met = 0.0  # monotonic time when all tasks had met
        self._lock = threading.Lock()
        self._turnstile = threading.Lock()  # held by a checkpoint that waits for all workers: no new step starts
        self._kept_at = time.monotonic()

    def run(self) -> None:
        """Go from state to state, to the end of the job. Raises `Lost`, and every error that is no loss of a task."""
        begin = time.monotonic()
        with starting.started(self.asked, self.programs.engine, self.spec, self.layouts) as how:
            self.tasks = Supervisor(self.asked, how, self._step_of, self._comes_back, met=bool(self.ran.faults))
            try:
                self._started()
                self.ran.start = self.ran.start or time.monotonic() - begin
                self._met()
                if self.asked.asynchronous:
                    self._out_of_step()
                else:
                    self._in_step()
                self._ended()
            finally:
                self.tasks.end()

    def _step_of(self, task: Task) -> int:
        return self.workers[task].at if task in self.workers else max(one.at for one in self.workers.values())

    def _comes_back(self, task: Task) -> bool:
        """Whether a lost task is started again while the others go on."""
        return self.asked.asynchronous and self.programs.engine.rejoins and task in self.workers and self.met > 0

    def _each(self, do: Callable[[WorkerProgress], T]) -> list[T]:
        return self.tasks.each(lambda task: do(self.workers[task]), list(self.workers))

    # --- started, met ----------------------------------------------------------------------------------------------

    def _started(self) -> None:
        """Start every process. Give the servers new records, or those of the checkpoint."""
        self.tasks.each(self.tasks.start, self.spec.tasks)
        self.tasks.each(self._listens, self.spec.tasks)
        self._tell()
        new = self.programs.records()
        records = [self.newest.arrays.get(f"ps/{k}", record) for k, record in enumerate(new)]
        begins = {server: [record] for server, record in zip(self.servers, records, strict=True)}
        if self.chief is not None:
            begins = {self.chief: records}
        self.tasks.each(lambda task: self.tasks.ask(task, "call", "open", begins.get(task, [])), self.spec.tasks)
        for one, record in zip(self.layouts, records, strict=True):
            self.ran.log.forget(one.server, one.version(record))  # later updates are lost
            for worker in range(one.workers):  # updates that lost tasks could not report
                self._note(one.since(record, worker, 0))

    def _met(self) -> None:
        """Compile the program of each worker. From now on a lost worker may come back."""
        self.tasks.met, self.met = True, time.monotonic()
        self._each(self._compile_first)
        for fault in self.ran.faults:
            fault.over()

    def _listens(self, task: Task) -> None:
        """Ask a task for its process id and the addresses that it listens on."""
        self.pids[task], self.ran.listens[str(task)] = self.tasks.ask(task, "listens", limit=self.asked.limit)

    def _tell(self) -> None:
        doing = f"from step {self.newest.step}"
        self.tell({"tasks": [[str(task), self.pids[task], doing] for task in self.spec.tasks if task in self.pids]})

    def _compile_first(self, worker: WorkerProgress) -> None:
        task, number = worker.task, min(worker.at, self.asked.steps - 1)
        with self.tasks.reading(task, number):
            arrays = self.programs.arrays(task, number)
        self._loaded(worker, arrays)
        for variable in self.programs.own(task):
            held = self.newest.arrays.get(f"worker/{task.index}/{variable.name}")
            if held is not None:
                with self._backend(task) as backend:
                    backend.set_value(variable, held)

    def _loaded(self, worker: WorkerProgress, arrays: Sequence[np.ndarray]) -> ProgramHandle:
        key = shapes(arrays)
        if key not in worker.programs:
            traced = self.programs.of(worker.task, arrays)
            with self._backend(worker.task) as backend:
                whole = self.chief is not None
                worker.programs[key] = loaded(backend, traced, self.asked.devices, whole=whole)
        return worker.programs[key]

    @contextmanager
    def _backend(self, task: Task) -> Iterator[TaskBackend]:
        """The backend with the program and the own variables of a worker: the coordinator's, if there is one. Raises
        `Lost` where the block loses it."""
        whose = self.chief or task
        try:
            yield self.tasks.backends[whose]
        except (WorkerDied, WorkerTimeout) as error:
            raise self.tasks.lost(whose, error) from error

    # --- in step ---------------------------------------------------------------------------------------------------

    def _in_step(self) -> None:
        """All workers take the same steps, and share checkpoints."""
        step, asked = self.newest.step, self.asked
        while step < asked.steps:
            wanted = min(worker.wanted(asked) for worker in self.workers.values())
            # All compile before one of them waits in a step for the others.
            count = min(self._each(partial(self._prepare, wanted=wanted)))
            self._same_reductions(step, count)
            self._each(lambda worker, count=count: self._advance(worker.task, [worker], [count]))  # type: ignore[misc]
            step += count
            if step % asked.every == 0 or step == asked.steps:
                arrays = {f"ps/{k}": record for k, record in enumerate(self._records())}
                arrays |= {f"worker/{task.index}/{name}": value for task, name, value in self._values()}
                self._kept(step, arrays)

    def _same_reductions(self, step: int, count: int) -> None:
        """Tasks in step reduce the same arrays, in the same order."""
        first, *others = self.workers.values()
        for k, worker in product(range(count), others):
            one, other = (own.ready[k].program.reduced for own in (first, worker))
            if one != other:
                raise ClusterError(
                    f"{first.task} and {worker.task} reduce other arrays with each other at step {step + k}: {one} and "
                    f"{other}; every task calls xb.all_reduce(across=task) for the same arrays in the same order"
                )

    def _out_of_step(self) -> None:
        """Each worker takes its own steps. A lost one comes back where the engine allows it."""
        for worker, done in zip(self.workers.values(), self._done(self._records()), strict=True):
            if done > self.asked.steps:
                raise ClusterError(
                    f"{worker.task} has taken {done} steps before the checkpoint, and {self.asked.steps} were asked "
                    "for: ask for more, or take another folder"
                )
            worker.at = done
        if self.chief is None:
            self._each(lambda worker: self._drive(worker.task, [worker]))
        else:
            over = threading.Event()
            self.tasks.each(partial(self._coordinated, over=over), [self.chief, *self.workers])
        self._keep_servers(now=True)

    def _drive(self, driver: Task, workers: Sequence[WorkerProgress]) -> None:
        """Let workers take all their steps. The process of ``driver`` computes them, or schedules them."""
        while left := [worker for worker in workers if worker.at < self.asked.steps]:
            counts = list[int]()
            try:
                counts = [self._prepare(worker, worker.wanted(self.asked)) for worker in left]
                with self._turnstile:
                    pass
                with left[0].stepping:
                    self._advance(driver, left, counts)
            except Lost as lost:
                if not isinstance(lost.why, WorkerError) or driver == self.chief:
                    raise
                self._again(self.tasks.loss(driver, lost))
            if any(one.at % self.asked.every < count for one, count in zip(left, counts, strict=False)):
                self._keep_servers()

    def _coordinated(self, task: Task, over: threading.Event) -> None:
        """For the coordinator: let the workers take all steps. For a worker: start it again after each loss, until all
        steps are taken."""
        if task == self.chief:
            try:
                self._drive(task, list(self.workers.values()))
            finally:
                over.set()
        while not over.wait(LOOK):
            if self.tasks.gone(task):
                # The start is not awaited once the others have taken all steps.
                again = begun(self._again, self.tasks.loss(task))
                while not again.done() and not over.wait(LOOK):
                    pass
                if not over.is_set():
                    again.result()

    def _prepare(self, worker: WorkerProgress, wanted: int) -> int:
        """Read the batches of a worker's next steps and compile for their shapes. Stops at ``wanted`` batches, at
        `AT_ONCE` bytes, or after `CHUNK` seconds. Returns the number of batches that are ready, at most ``wanted``."""
        ready, since = worker.ready, time.monotonic()

        def more() -> bool:
            nbytes = sum(array.nbytes for one in ready for array in one.arrays)
            return nbytes <= AT_ONCE and time.monotonic() - since < CHUNK

        while len(ready) < wanted and (not ready or more()):
            number = worker.at + len(ready)
            with self.tasks.reading(worker.task, number):
                arrays = self.programs.arrays(worker.task, number)
                self.programs.of(worker.task, arrays)
            ready.append(Batch(arrays, self._loaded(worker, arrays)))
        return min(wanted, len(ready))

    def _advance(self, driver: Task, workers: Sequence[WorkerProgress], counts: Sequence[int]) -> None:
        """Let each worker take its count of steps. Their batches are ready."""
        taken = [(worker, worker.taken(count)) for worker, count in zip(workers, counts, strict=True)]
        limit = max(worker.limit(own, self.asked) for worker, own in taken)
        if driver == self.chief:  # the step of a lost worker waits until a worker is back
            limit += self.asked.start_limit
        answers = self.tasks.ask(driver, "advance", [worker.told(own) for worker, own in taken], limit=limit)
        for (worker, own), answer in zip(taken, answers, strict=True):
            self._took(worker, own, answer)

    def _took(self, worker: WorkerProgress, batches: Sequence[Batch], answer: Mapping[str, Any]) -> None:
        """Record the steps that a worker has taken with these batches."""
        task, first, last, seconds = worker.task, worker.at, worker.at + len(batches) - 1, answer["seconds"]
        outputs = []
        for one, given in zip(batches, answer["outputs"], strict=True):
            one.program.taken = True
            outputs.append(unflatten(self.programs.of(task, one.arrays).program.structure, given))
        with self._lock:
            self.tasks.needed(task)
            kept = self.ran.outputs.setdefault(task.index, {})
            small = sum(array.nbytes for array in answer["outputs"][0]) <= SMALL
            if not small:
                kept.clear()
            kept.update({k: own for k, own in enumerate(outputs, first) if small or k == last})
            for step in sorted(kept)[:-STEPS_KEPT]:
                del kept[step]
            own_seconds = self.ran.seconds.setdefault(task.index, [])
            own_seconds += seconds if worker.pace else seconds[1:]
            del own_seconds[:-SECONDS_KEPT]
            if not worker.pace and not self.ran.faults:
                self.ran.build = time.monotonic() - self.met
            for what, nbytes in answer["moved"].items():
                self.ran.moved[what] += nbytes
            self.ran.taken += len(outputs)
        self._note([Applied(*plain) for plain in answer["applied"]])
        worker.pace = max(1e-6, float(np.median(seconds if worker.pace else seconds[-1:])))
        worker.at = last + 1
        self._say(worker, outputs[-1])

    def _note(self, entries: Sequence[Applied]) -> None:
        with self._lock:
            if self.asked.recorded and not self.tasks.over:  # else a new start has begun: keep its log apart
                self.ran.log.note(entries)

    def _say(self, worker: WorkerProgress, output: Any) -> None:
        now = time.monotonic()
        if now - worker.said < CHUNK and worker.at < self.asked.steps:
            return
        worker.said = now
        numbers = ", ".join(f"{a.item():.6g}" for a in flatten(output, np.asarray)[0] if a.size == 1)
        said = (str(worker.task), f"step {worker.at}", numbers, f"{1 / worker.pace:.0f} steps/s")
        self.asked.on_line("  ".join(filter(None, said)))

    # --- again -----------------------------------------------------------------------------------------------------

    def _again(self, lost: Lost) -> None:
        """Start one worker again while the others go on. Raises the loss where all must be started again."""
        task, gone = lost.task, any(map(self.tasks.gone, self.servers))
        with self._lock:
            if gone or not self._comes_back(task) or len(self.ran.faults) >= self.asked.restarts:
                raise lost
            fault = TaskLoss(str(task), lost.step, short(lost.why), str(task), lost.seen)
            self.ran.faults.append(fault)
        self.asked.on_line(f"{task} was lost at step {lost.step} ({fault.why}); it is started again")
        self.tasks.again(task)
        self._listens(task)
        self._tell()
        self.tasks.ask(task, "call", "open", [])
        if self.chief is None:  # else the coordinator has its program and knows its steps
            self._resume(self.workers[task])
        fault.over()
        self.asked.on_line(f"{task} goes on at step {self.workers[task].at}")

    def _resume(self, worker: WorkerProgress) -> None:
        """Compile a worker's program in its new process. Read its unreported steps from the records."""
        worker.forget()
        self._compile_first(worker)
        records, index = [self._record(server) for server in self.servers], worker.task.index
        for one, record in zip(self.layouts, records, strict=True):
            self._note(one.since(record, index, worker.at))
        worker.at = self._done(records)[index]

    # --- checkpoints, and the end ----------------------------------------------------------------------------------

    def _done(self, records: Sequence[np.ndarray]) -> list[int]:
        """For each worker, how many of its steps all servers have applied."""
        each = [one.steps(record) for one, record in zip(self.layouts, records, strict=True)]
        return [min(own) for own in zip(*each, strict=True)]

    def _record(self, server: Task) -> np.ndarray:
        asked = self.chief or server
        found: np.ndarray = self.tasks.ask(asked, "call", "record", server.index, limit=self.asked.limit)
        return found

    def _records(self) -> list[np.ndarray]:
        return self.tasks.each(self._record, self.servers)

    def _values(self) -> Iterator[tuple[Task, str, np.ndarray]]:
        """The own variables of the workers: task, name, value."""

        def own(worker: WorkerProgress) -> list[tuple[Task, str, np.ndarray]]:
            with self._backend(worker.task) as backend:
                return [(worker.task, v.name, backend.get_value(v)) for v in self.programs.own(worker.task)]

        return chain.from_iterable(self._each(own))

    def _keep_servers(self, now: bool = False) -> None:
        """Write a checkpoint of asynchronous tasks. Several servers are read while no worker takes a step: an update of
        one server may depend on a version of another, and the checkpoint needs both."""
        several = len(self.servers) > 1

        def due() -> bool:
            return now or not several or time.monotonic() - self._kept_at >= SEVERAL

        if due():
            with ExitStack() as still:
                with self._turnstile:
                    for worker in self.workers.values() if several else ():
                        still.enter_context(worker.stepping)
                if not due():
                    return  # another thread has just written one
                self._kept_at = time.monotonic()
                records = self._records() if now else [self._record(task) for task in self.servers]
            self._kept(min(self._done(records)), {f"ps/{k}": record for k, record in enumerate(records)})

    def _kept(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        with self._lock:
            if step >= self.newest.step and not self.tasks.over:
                self.newest = replace(self.newest, step=step, arrays=arrays)
                if self.asked.folder is not None:
                    checkpoints.write(self.asked.folder, self.newest)

    def _ended(self) -> None:
        """Read the final variables. Check that every update was applied once."""
        ran, wanted = self.ran, [self.asked.steps] * len(self.workers)
        with self._lock:  # a coordinator's lost workers may still be starting
            for fault in ran.faults:
                if not fault.seconds:
                    fault.again = "none: others took its steps"
                    fault.over()
        for task, one, record in zip(self.servers, self.layouts, self._records(), strict=True):
            if one.steps(record) != wanted or one.version(record) != sum(wanted):
                raise ClusterError(
                    f"{task} has {one.version(record)} updates, {one.steps(record)} of the workers, in place of "
                    f"{sum(wanted)}: please report this"
                )
            ran.updates += one.version(record) - ran.before[one.server]
            ran.variables |= {f"{task}/{name}": array.copy() for name, array in one.arrays(record).items()}
        ran.variables |= {f"{task}/{name}": value for task, name, value in self._values()}


def short(error: BaseException) -> str:
    """The first sentence of an error."""
    return str(error).splitlines()[0].partition(": backend ")[0].partition(" while it did ")[0].partition(". ")[0]
