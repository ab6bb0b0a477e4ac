"""A job from one start of all its tasks to the next: the steps that tasks take, in step or each for itself, and the
checkpoints on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from xbackend.cluster import starting, status
from xbackend.cluster.asked import Asked
from xbackend.cluster.gate import Gate
from xbackend.cluster.programs import Compiled, Programs, compiled, scheduled, shapes
from xbackend.cluster.ran import SECONDS_KEPT, STEPS_KEPT, Fault, Ran
from xbackend.cluster.supervisor import LOOK, Lost, Supervisor, begun
from xbackend.cluster.tasks import TaskBackend
from xbackend.engines.member import plain
from xbackend.engines.record import KEPT, Applied, Layout
from xbackend.engines.registry import Entry
from xbackend.engines.spec import CHIEF, SERVER, WORKER, ClusterSpec, Task
from xbackend.errors import ClusterError, WorkerDied, WorkerError, WorkerTimeout
from xbackend.program.structure import unflatten
from xbackend.training import checkpoints
from xbackend.training.checkpoints import Checkpoint

CHUNK = 0.5  # seconds of steps that a task takes from one question of the launcher to the next
MOST = KEPT  # steps of a chunk: what a task could not say of them a server still knows
SEVERAL = 1.0  # seconds from one checkpoint of several servers to the next: all tasks wait for it
AT_ONCE = 1 << 25  # bytes of batches that a task is sent at once, if it is more than one
SMALL = 256  # bytes of an output that is kept of every step


@dataclass
class State:
    """What a job goes on from: the steps that are done (of all workers where they are in step), and all arrays."""

    step: int
    arrays: dict[str, np.ndarray]


@dataclass
class Ready:
    """What a task's next step is given, and what was compiled for its shapes."""

    arrays: list[np.ndarray]
    compiled: Compiled

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)


@dataclass(frozen=True)
class Chunk:
    """Steps of a task from the number ``first`` on, and the seconds that they may take."""

    task: Task
    first: int
    taken: list[Ready]
    limit: float

    @property
    def told(self) -> tuple[list[Any], int, list[tuple[int, list[np.ndarray]]]]:
        """What `member.advance` takes."""
        own = list({id(one.compiled): one.compiled for one in self.taken}.values())
        places = {id(one): k for k, one in enumerate(own)}
        return [one.step for one in own], self.first, [(places[id(one.compiled)], one.arrays) for one in self.taken]


@dataclass(frozen=True)
class Common:
    """What all attempts have in common. ``fingerprint`` is of what the first steps are, whatever shapes come later."""

    asked: Asked
    engine: Entry
    programs: Programs
    fingerprint: str
    ran: Ran
    told: status.Told


class Attempt:
    """All tasks, started at a state. ``lost_at``: when the faults were seen after which nothing goes on yet, by their
    number."""

    def __init__(self, common: Common, spec: ClusterSpec, state: State, lost_at: dict[int, float]) -> None:
        self.asked, self.engine, self.programs = common.asked, common.engine, common.programs
        self.fingerprint, self.ran, self.told = common.fingerprint, common.ran, common.told
        self.spec, self.state = spec, state
        self.lost_at = lost_at
        self.pids: dict[Task, int] = {}
        self.met = 0.0  # when all tasks had met
        self.workers = [task for task in spec.tasks if task.job == WORKER]
        self.servers = [task for task in spec.tasks if task.job == SERVER]
        self.chief = next((task for task in spec.tasks if task.job == CHIEF), None)
        self.layouts: list[Layout] = self.programs.layouts if self.servers else []
        self.compiled: dict[tuple[Task, Any], Compiled] = {}
        self.ready: dict[Task, list[Ready]] = {task: [] for task in self.workers}
        self.at = dict.fromkeys(self.workers, state.step)
        self.pace: dict[Task, float] = {}
        self.said: dict[Task, float] = {}
        self._lock = threading.Lock()
        self._gate = Gate()
        self._kept_at = time.monotonic()

    def run(self) -> None:
        """Take the job's steps to its end. Raises `Lost`, and what is no loss of a task."""
        begun = time.monotonic()
        with starting.started(self.asked, self.engine, self.spec) as how:
            self.tasks = Supervisor(self.asked, how, self._step_of, self._comes_back)
            self.tasks.met = bool(self.ran.faults)
            try:
                self.tasks.each(self.tasks.start, self.spec.tasks)
                self.tasks.each(self._listens, self.spec.tasks)
                self._tell()
                self._open()
                self.ran.start = self.ran.start or time.monotonic() - begun
                self.tasks.met, self.met = True, time.monotonic()
                self.tasks.each(self._compile_first, self.workers)
                self._goes_on()
                if self.asked.asynchronous:
                    self._out_of_step()
                else:
                    self._in_step()
                self._finish()
            finally:
                self.tasks.end()

    def _goes_on(self) -> None:
        """Say how long it took, where this is not the first attempt."""
        for number, seen in self.lost_at.items():
            self.ran.faults[number] = replace(self.ran.faults[number], seconds=time.monotonic() - seen)
        self.lost_at.clear()

    def _step_of(self, task: Task) -> int:
        return self.at.get(task, max(self.at.values(), default=0))

    def _comes_back(self, task: Task) -> bool:
        return self.asked.asynchronous and self.engine.rejoins and task.job == WORKER and self.met > 0

    # --- the start -------------------------------------------------------------------------------------------------

    def _listens(self, task: Task) -> None:
        """Ask a task which process it is, and what it listens on."""
        pid, addresses = self.tasks.ask(task, "listens", limit=self.asked.limit)
        self.pids[task], self.ran.listens[str(task)] = pid, addresses

    def _tell(self) -> None:
        """Say which processes there are."""
        doing = f"from step {self.state.step}"
        self.told({"tasks": [[str(task), self.pids[task], doing] for task in self.spec.tasks if task in self.pids]})

    def _open(self) -> None:
        """Give the servers their records: new ones, or those of the state."""
        plainly = [plain(one) for one in self.layouts]
        new = self.programs.records() if self.layouts else []
        records = [self.state.arrays.get(f"ps/{k}", record) for k, record in enumerate(new)]
        begins = {server: [record] for server, record in zip(self.servers, records, strict=True)}
        if self.chief is not None:
            begins = {self.chief: records}

        def open_(task: Task) -> None:
            self.tasks.ask(task, "opened", plainly, begins.get(task, []))

        self.tasks.each(open_, self.spec.tasks)
        for one, record in zip(self.layouts, records, strict=True):
            self._begin_at(one, record)

    def _begin_at(self, one: Layout, record: np.ndarray) -> None:
        """Forget the updates that came after the record, and take from it what the tasks could not say of before."""
        version = one.version(record)
        self.ran.before.setdefault(one.server, version)
        late = [key for key in self.ran.noted if key[0] == one.server and key[1] > version]
        for key in late:
            del self.ran.noted[key]
        for worker, steps in enumerate(one.steps(record)):
            self._note([one.applied(record, worker, k) for k in range(max(0, steps - KEPT), steps)])

    def _compile_first(self, task: Task) -> None:
        number = min(self.at[task], self.asked.steps - 1)
        with self.tasks.reading(task, number):
            arrays = self.programs.arrays(task, number)
        self._compiled(task, arrays)
        for variable in self.programs.own(task):
            held = self.state.arrays.get(f"worker/{task.index}/{variable.name}")
            if held is not None:
                with self._backend(task) as backend:
                    backend.set_value(variable, held)

    def _compiled(self, task: Task, arrays: Sequence[np.ndarray]) -> Compiled:
        key = task, shapes(arrays)
        if key not in self.compiled:
            traced = self.programs.of(task, arrays)
            make = compiled if self.chief is None else scheduled
            with self._backend(task) as backend:
                self.compiled[key] = make(backend, traced, self.layouts, self.engine, self.asked.devices)
        return self.compiled[key]

    @contextmanager
    def _backend(self, task: Task) -> Iterator[TaskBackend]:
        """The backend that has the program and the own variables of a worker, asked in the block: it is the
        coordinator's, where there is one. Raises `Lost` for whose it is."""
        whose = self.chief or task
        try:
            yield self.tasks.backends[whose]
        except (WorkerDied, WorkerTimeout) as error:
            raise self.tasks.lost(whose, error) from error

    # --- steps -----------------------------------------------------------------------------------------------------

    def _in_step(self) -> None:
        """All workers take the same steps; a checkpoint is of all of them."""
        step, asked = self.state.step, self.asked
        while step < asked.steps:
            until = min(asked.steps, step - step % asked.every + asked.every)
            pace = max(self.pace.values(), default=0.0)
            wanted = min(until - step, MOST, max(1, int(CHUNK / pace))) if pace else 1
            # All have compiled before one of them waits in a step for the others.
            count = min(self.tasks.each(partial(self._prepare, wanted=wanted), self.workers))
            self._same_reductions(step, count)
            self.tasks.each(partial(self._advance, count=count), self.workers)
            step += count
            if step % asked.every == 0 or step == asked.steps:
                self._keep(step)

    def _same_reductions(self, step: int, count: int) -> None:
        """Tasks in step reduce the same arrays, in the same order."""
        first, *others = self.workers
        for k in range(count):
            one = self.ready[first][k].compiled.reduced
            for task in others:
                if self.ready[task][k].compiled.reduced != one:
                    raise ClusterError(
                        f"{first} and {task} reduce other arrays with each other at step {step + k}: {one} and "
                        f"{self.ready[task][k].compiled.reduced}; every task calls xb.all_reduce(across=task) for the "
                        "same arrays in the same order"
                    )

    def _out_of_step(self) -> None:
        """Each worker takes its own steps; one that is lost comes back where the engine lets it."""
        for task, done in zip(self.workers, self._done(), strict=True):
            if done > self.asked.steps:
                raise ClusterError(
                    f"{task} has taken {done} steps before the checkpoint, and {self.asked.steps} were asked for: ask "
                    "for more, or take another folder"
                )
            self.at[task] = done
        if self.chief is None:
            self.tasks.each(self._alone, self.workers)
        else:
            over = threading.Event()
            self.tasks.each(partial(self._coordinated, over=over), [self.chief, *self.workers])
        self._keep_servers(now=True)

    def _wanted(self, task: Task) -> int:
        """How many steps a task takes next."""
        pace, at, every = self.pace.get(task), self.at[task], self.asked.every
        until = min(self.asked.steps, at - at % every + every)
        return min(until - at, MOST, max(1, int(CHUNK / pace))) if pace else 1

    def _alone(self, task: Task) -> None:
        while self.at[task] < self.asked.steps:
            count = 0
            try:
                count = self._prepare(task, self._wanted(task))
                with self._gate.passed():
                    self._advance(task, count)
            except (WorkerDied, WorkerTimeout) as error:
                self._again(task, self.tasks.loss(task, error))
            except Lost as lost:
                if not isinstance(lost.why, WorkerError):
                    raise
                self._again(task, self.tasks.loss(task, lost.why))
            if self.at[task] % self.asked.every < count:
                self._keep_servers()

    def _coordinated(self, task: Task, over: threading.Event) -> None:
        """Let workers take all steps, as the coordinator; as a worker, be started again whenever it is lost, until they
        are taken."""
        if task == self.chief:
            try:
                while left := [worker for worker in self.workers if self.at[worker] < self.asked.steps]:
                    counts = [self._prepare(worker, self._wanted(worker)) for worker in left]
                    self._advance_all(left, counts)
                    if any(self.at[own] % self.asked.every < count for own, count in zip(left, counts, strict=True)):
                        self._keep_servers()
            finally:
                over.set()
        while not over.wait(LOOK):
            if self.tasks.gone(task):
                # Not waited for when the others have taken all steps.
                again = begun(self._again, task, self.tasks.loss(task))
                while not again.done() and not over.wait(LOOK):
                    pass
                if not over.is_set():
                    again.result()

    def _again(self, task: Task, error: WorkerError) -> None:
        """Start one task again while the others go on; what it had done it reads from the servers."""
        seen = time.monotonic()
        step, gone = self.at[task], any(self.tasks.gone(server) for server in self.servers)
        with self._lock:
            if gone or not self._comes_back(task) or len(self.ran.faults) >= self.asked.restarts:
                raise error
            number = len(self.ran.faults)
            self.ran.faults.append(Fault(str(task), step, short(error), str(task)))
            self.lost_at[number] = seen  # if it does not come back, all go on later
        self.asked.on_line(f"{task} was lost at step {step} ({short(error)}); it is started again")
        self.tasks.again(task)
        self._listens(task)
        self._tell()
        self.tasks.ask(task, "opened", [plain(one) for one in self.layouts], [])
        if self.chief is None:  # else it is the coordinator that has its program, and knows what is done
            self._resume(task)
        with self._lock:
            self.ran.faults[number] = replace(self.ran.faults[number], seconds=time.monotonic() - seen)
            self.lost_at.pop(number, None)
        self.asked.on_line(f"{task} goes on at step {self.at[task]}")

    def _resume(self, task: Task) -> None:
        """Compile a task's program in its new process, and read what it had done and could not say."""
        for key in [key for key in list(self.compiled) if key[0] == task]:
            del self.compiled[key]
        self.ready[task].clear()
        self.pace.pop(task, None)  # its next step is one that compiles
        self._compile_first(task)
        records = [self._record(server) for server in self.servers]
        done = [one.steps(record)[task.index] for one, record in zip(self.layouts, records, strict=True)]
        for one, record, steps in zip(self.layouts, records, done, strict=True):
            entries = [one.applied(record, task.index, k) for k in range(self.at[task], steps)]
            self._note(entries)
        self.at[task] = min(done)

    def _prepare(self, task: Task, wanted: int) -> int:
        """The batches of a task's next steps, with what is compiled for their shapes: as many as are ``wanted``, as are
        sent at once, or as come within a chunk's time; how many there are."""
        ready, begun = self.ready[task], time.monotonic()
        held = sum(one.nbytes for one in ready)
        while len(ready) < wanted and (not ready or (held <= AT_ONCE and time.monotonic() - begun < CHUNK)):
            number = self.at[task] + len(ready)
            with self.tasks.reading(task, number):
                arrays = self.programs.arrays(task, number)
                self.programs.of(task, arrays)
            ready.append(Ready(arrays, self._compiled(task, arrays)))
            held += ready[-1].nbytes
        return min(wanted, len(ready))

    def _advance(self, task: Task, count: int) -> None:
        """So many steps of a task, which are prepared."""
        chunk = self._chunk(task, count)
        answer = self.tasks.ask(task, "advance", *chunk.told, limit=chunk.limit)
        self._took(chunk, answer)

    def _advance_all(self, tasks: Sequence[Task], counts: Sequence[int]) -> None:
        """So many steps of each of the tasks, which the coordinator lets workers take."""
        assert self.chief is not None
        chunks = [self._chunk(task, count) for task, count in zip(tasks, counts, strict=True)]
        # A step that a worker was lost in waits until one is there again.
        limit = max(chunk.limit for chunk in chunks) + self.asked.start_limit
        answers = self.tasks.ask(self.chief, "coordinate", [chunk.told for chunk in chunks], limit=limit)
        for chunk, answer in zip(chunks, answers, strict=True):
            self._took(chunk, answer)

    def _chunk(self, task: Task, count: int) -> Chunk:
        """So many steps of a task, which are prepared."""
        taken, pace = self.ready[task][:count], self.pace.get(task)
        del self.ready[task][:count]
        new = not all(one.compiled.taken for one in taken)
        # Some frameworks go on compiling when a program is called first.
        limit = (self.asked.start_limit if new or not pace else self.asked.limit + pace * count) + 2 * CHUNK
        return Chunk(task, self.at[task], taken, limit)

    def _took(self, chunk: Chunk, answer: Mapping[str, Any]) -> None:
        task, first = chunk.task, chunk.first
        for one in chunk.taken:
            one.compiled.taken = True
        structures = [self.programs.of(task, one.arrays).program.structure for one in chunk.taken]
        outputs = [unflatten(own, given) for own, given in zip(structures, answer["outputs"], strict=True)]
        with self._lock:
            self.tasks.needed(task)
            kept = self.ran.outputs.setdefault(task.index, {})
            small = sum(array.nbytes for array in answer["outputs"][0]) <= SMALL
            if not small:
                kept.clear()
            kept.update({first + k: own for k, own in enumerate(outputs) if small or k == len(outputs) - 1})
            for step in sorted(kept)[:-STEPS_KEPT]:
                del kept[step]
            seconds = self.ran.seconds.setdefault(task.index, [])
            seconds += answer["seconds"] if self.pace.get(task) else answer["seconds"][1:]
            del seconds[:-SECONDS_KEPT]
            if not self.pace.get(task) and not self.ran.faults:
                self.ran.build = time.monotonic() - self.met
            self.ran.moved = {k: v + self.ran.moved.get(k, 0) for k, v in answer["moved"].items()}
            self.ran.taken += len(outputs)
        self._note([Applied.of(plain) for plain in answer["applied"]])
        steady = answer["seconds"] if self.pace.get(task) else answer["seconds"][-1:]
        self.pace[task] = max(1e-6, float(np.median(steady)))
        self._say(task, first + len(outputs), outputs[-1])
        self.at[task] = first + len(outputs)

    def _note(self, entries: Sequence[Applied]) -> None:
        with self._lock:
            if self.tasks.over or not self.asked.recorded:  # of another start: it is not to be mixed with this
                return
            self.ran.noted.update({(one.server, one.version): one for one in entries})

    def _say(self, task: Task, step: int, output: Any) -> None:
        now = time.monotonic()
        if now - self.said.get(task, 0.0) < CHUNK and step < self.asked.steps:
            return
        self.said[task] = now
        numbers = ", ".join(f"{np.asarray(a).item():.6g}" for a in _leaves(output) if np.asarray(a).size == 1)
        self.asked.on_line(f"{task}  step {step}{f'  {numbers}' if numbers else ''}  {1 / self.pace[task]:.0f} steps/s")

    # --- what is kept ----------------------------------------------------------------------------------------------

    def _done(self) -> list[int]:
        """How many steps of each worker are in, in all servers."""
        each = [one.steps(record) for one, record in zip(self.layouts, self._records(), strict=True)]
        return [min(own) for own in zip(*each, strict=True)]

    def _record(self, server: Task) -> np.ndarray:
        found: np.ndarray = self.tasks.ask(self.chief or server, "record", server.index, limit=self.asked.limit)
        return found

    def _records(self) -> list[np.ndarray]:
        return self.tasks.each(self._record, self.servers)

    def _values(self) -> list[dict[str, np.ndarray]]:
        """Of each worker's own variables."""

        def own(task: Task) -> dict[str, np.ndarray]:
            with self._backend(task) as backend:
                return {v.name: backend.get_value(v) for v in self.programs.own(task)}

        return self.tasks.each(own, self.workers)

    def _keep(self, step: int) -> None:
        arrays = {f"ps/{k}": record for k, record in enumerate(self._records())}
        for task, values in zip(self.workers, self._values(), strict=True):
            arrays.update({f"worker/{task.index}/{name}": value for name, value in values.items()})
        self._kept(State(step, arrays))

    def _due(self) -> bool:
        return time.monotonic() - self._kept_at >= SEVERAL

    def _keep_servers(self, now: bool = False) -> None:
        """A checkpoint of asynchronous tasks. Several servers are read while nobody takes a step: what one of them has
        may be computed from versions that another one has to have, too."""
        several = len(self.servers) > 1
        if several and not now and not self._due():
            return
        with self._gate.closed() if several else nullcontext():
            if several and not now and not self._due():
                return  # another task's thread was first
            self._kept_at = time.monotonic()
            records = self._records() if now else [self._record(task) for task in self.servers]
        arrays = {f"ps/{k}": record for k, record in enumerate(records)}
        done = [
            min(own)
            for own in zip(*(self.layouts[k].steps(arrays[f"ps/{k}"]) for k in range(len(arrays))), strict=True)
        ]
        self._kept(State(min(done), arrays))

    def _kept(self, state: State) -> None:
        with self._lock:
            if state.step < self.state.step or self.tasks.over:
                return
            self.state = state
            if self.asked.folder is not None:
                checkpoints.write(self.asked.folder, Checkpoint(state.arrays, self.fingerprint, state.step, {}))

    def _finish(self) -> None:
        """Read what it came to, and see that every update is in, once."""
        ran = self.ran
        with self._lock:  # of a coordinator's workers
            for number, seen in self.lost_at.items():
                took = time.monotonic() - seen
                ran.faults[number] = replace(ran.faults[number], again="none: others took its steps", seconds=took)
            self.lost_at.clear()
        for task, one, record in zip(self.servers, self.layouts, self._records(), strict=True):
            wanted = [self.asked.steps] * len(self.workers)
            if one.steps(record) != wanted or one.version(record) != sum(wanted):
                raise ClusterError(
                    f"{task} has {one.version(record)} updates, {one.steps(record)} of the workers, in place of "
                    f"{sum(wanted)}: please report this"
                )
            ran.updates += one.version(record) - ran.before[one.server]
            for name, array in one.arrays(record).items():
                ran.variables[f"{task}/{name}"] = array.copy()
        for task, values in zip(self.workers, self._values(), strict=True):
            ran.variables.update({f"{task}/{name}": value for name, value in values.items()})


def short(error: BaseException) -> str:
    """The first sentence of an error."""
    return str(error).splitlines()[0].partition(": backend ")[0].partition(" while it did ")[0].partition(". ")[0]


def _leaves(output: Any) -> Iterator[Any]:
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, list | tuple):
        for one in output:
            yield from _leaves(one)
    else:
        yield output
