"""A job on a cluster, from its start to its end: tasks are started, take their steps, are watched, and started again
where one is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from xbackend.cluster import starting, status
from xbackend.cluster.asked import Asked
from xbackend.cluster.gate import Gate
from xbackend.cluster.programs import Compiled, Programs, compiled, shapes
from xbackend.cluster.ran import Fault, Ran
from xbackend.cluster.tasks import TaskBackend
from xbackend.engines.member import plain
from xbackend.engines.record import KEPT, Applied, Layout
from xbackend.engines.registry import Entry, of
from xbackend.engines.spec import SERVER, WORKER, ClusterSpec, Task, split
from xbackend.errors import BackendError, ClusterError, WorkerDied, WorkerError, WorkerTimeout, XBackendError
from xbackend.program.structure import unflatten
from xbackend.training import checkpoints
from xbackend.training.checkpoints import Checkpoint
from xbackend.workers.remote import ready_environment

T = TypeVar("T")
CHUNK = 0.5  # seconds of steps that a task takes from one question of the launcher to the next
MOST = KEPT  # steps of a chunk: what a task could not say of them a server still knows
GRACE = 2.0  # seconds in which the task that ended is told from those that only miss it
STOPPED = 1.5  # seconds after which a process that is stopped is lost
SEVERAL = 1.0  # seconds from one checkpoint of several servers to the next: all tasks wait for it
AT_ONCE = 1 << 25  # bytes of batches that a task is sent at once, if it is more than one
SMALL = 256  # bytes of an output that is kept of every step


class Lost(Exception):
    """A task is gone; what raised it is its cause."""

    def __init__(self, task: Task, step: int, why: XBackendError) -> None:
        super().__init__(str(why))
        self.task, self.step, self.why = task, step, why


@dataclass
class State:
    """What a job goes on from: the steps that are done (of all workers where they are in step), and all arrays."""

    step: int
    arrays: dict[str, np.ndarray]


def run(asked: Asked) -> Ran:
    """Run a job to its end. The environment of its backend is made first where it is missing.

    Raises `ClusterError` naming the task that was lost where it was not to be started again, what the job's own
    functions raise as the guard says, and what backends raise for its program.
    """
    engine = of(asked.backend)
    ready_environment(asked.backend, on_progress=asked.on_line)
    spec = asked.cluster()
    programs = Programs(asked.job, spec, engine, asynchronous=asked.asynchronous, guard=asked.guard)
    for task in spec.tasks:
        if task.job == WORKER:
            programs.of(task, programs.arrays(task, 0))
    if asked.asynchronous and not programs.servers:
        raise ClusterError("--asynchronous is for tasks that share variables on a parameter server: --ps 1")
    ran = Ran(asked.backend, engine.summary, programs.workers, programs.servers, asked.steps)
    ran.begun = programs.records()
    fingerprint = programs.fingerprint  # of what the first steps are, whatever shapes come later
    state = _newest(asked, fingerprint)
    with status.told(asked.job.name, asked.backend) as told:
        return _attempts(_All(asked, engine, programs, fingerprint, ran, told), spec, state)


@dataclass(frozen=True)
class _All:
    """What all attempts have in common."""

    asked: Asked
    engine: Entry
    programs: Programs
    fingerprint: str
    ran: Ran
    told: status.Told


def _attempts(common: _All, spec: ClusterSpec, state: State) -> Ran:
    asked, ran = common.asked, common.ran
    lost_at: dict[int, float] = {}  # when the faults were seen after which nothing goes on yet, by their number
    while True:
        attempt = _Attempt(common, spec, state, lost_at)
        try:
            attempt.run()
            return ran
        except Lost as lost:
            fault = Fault(str(lost.task), lost.step, _short(lost.why), "all")
            lost_at[len(ran.faults)] = time.monotonic()
            ran.faults.append(fault)
            if len(ran.faults) > asked.restarts:
                raise ClusterError(
                    f"{lost.task} was lost at step {lost.step}: {lost.why}\n"
                    + ("Let what is lost be started again: --restarts 3." if not asked.restarts else "")
                    + (f"It was started again {asked.restarts} times." if asked.restarts else "")
                ) from lost.why
            state = attempt.state
            asked.on_line(f"{lost.task} was lost at step {lost.step} ({fault.why}); all go on from step {state.step}")
            spec = asked.cluster()


def _newest(asked: Asked, fingerprint: str) -> State:
    """Where a job begins: at the newest checkpoint of its folder, else at its beginning."""
    if asked.folder is not None:
        found, wrong = checkpoints.newest(asked.folder, fingerprint)
        for line in wrong:
            asked.on_line(line)
        if found is not None:
            if found.step > asked.steps:
                raise ClusterError(
                    f"{asked.folder} has a checkpoint of step {found.step}, and {asked.steps} steps were asked for: "
                    "ask for more, or take another folder"
                )
            asked.on_line(f"goes on from step {found.step} of {asked.folder}")
            return State(found.step, dict(found.arrays))
    return State(0, {})


class _Attempt:
    """A job from one start of all its tasks to the next."""

    def __init__(self, common: _All, spec: ClusterSpec, state: State, lost_at: dict[int, float]) -> None:
        self.asked, self.engine, self.programs = common.asked, common.engine, common.programs
        self.fingerprint, self.ran, self.told = common.fingerprint, common.ran, common.told
        self.spec, self.state = spec, state
        self.lost_at = lost_at
        self.met = 0.0  # when all tasks had met
        self.workers = [task for task in spec.tasks if task.job == WORKER]
        self.servers = [task for task in spec.tasks if task.job == SERVER]
        self.layouts: list[Layout] = self.programs.layouts if self.servers else []
        self.backends: dict[Task, TaskBackend] = {}
        self.compiled: dict[tuple[Task, Any], Compiled] = {}
        self.at = dict.fromkeys(self.workers, state.step)
        self.pace: dict[Task, float] = {}
        self.said: dict[Task, float] = {}
        self._lock = threading.Lock()
        self._gate = Gate()
        self._kept_at = time.monotonic()
        self._over = False

    def run(self) -> None:
        begun = time.monotonic()
        with self._tasks():
            self._open()
            self.ran.start = self.ran.start or time.monotonic() - begun
            self.met = time.monotonic()
            self._each(self._compile_first, self.workers)
            self._goes_on()
            if self.asked.asynchronous:
                self._out_of_step()
            else:
                self._in_step()
            self._finish()

    def _goes_on(self) -> None:
        """Say how long it took, where this is not the first attempt."""
        for number, seen in self.lost_at.items():
            self.ran.faults[number] = replace(self.ran.faults[number], seconds=time.monotonic() - seen)
        self.lost_at.clear()

    # --- start and end ---------------------------------------------------------------------------------------------

    @contextmanager
    def _tasks(self) -> Iterator[None]:
        with starting.started(self.asked, self.engine, self.spec) as how, self._pool() as self.pool:
            self.how = how
            try:
                self._each(self._start, list(self.spec.tasks))
                self._tell()
                yield
            finally:
                self._kill()

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        pool = ThreadPoolExecutor(len(self.spec.tasks) + 1)
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _start(self, task: Task) -> None:
        def known(backend: TaskBackend) -> None:
            with self._lock:  # from now on it is watched, and ended with the others
                if self._over:
                    raise ClusterError(f"{task} is not needed any more")
                self.backends[task] = backend

        self.how.backend(task, known)

    def _tell(self) -> None:
        """Say which processes there are, and what they listen on."""
        pids = {task: backend.worker.pids.get("worker", 0) for task, backend in self.backends.items()}
        self.ran.listens = {str(task): starting.listening(pids[task]) for task in self.spec.tasks if task in pids}
        self.told(
            {
                "tasks": [
                    [str(task), pids[task], f"from step {self.state.step}"] for task in self.spec.tasks if task in pids
                ]
            }
        )

    def _kill(self) -> None:
        with self._lock:
            left, self.backends, self._over = list(self.backends.values()), {}, True
        for future in [self.pool.submit(backend.worker.end) for backend in left]:
            future.result()

    def _ask(self, task: Task, function: str, *arguments: Any, limit: float | None = None) -> Any:
        backend = self.backends[task]
        try:
            return backend.call(
                f"xbackend.engines.member:{function}", *arguments, limit=limit or self.asked.start_limit
            )
        except (WorkerDied, WorkerTimeout) as error:  # of this task, whoever asks
            raise self._gone_at(task, error) from error

    def _gone_at(self, task: Task, why: XBackendError) -> Lost:
        if isinstance(why, WorkerDied) and self.how.remote(task):
            host, _ = split(self.spec.address(task))
            why = WorkerDied(f"its process ended, or the connection to {host} was lost: {why}")
        return Lost(task, self.at.get(task, max(self.at.values(), default=0)), why)

    def _open(self) -> None:
        """Give the servers their records: new ones, or those of the state."""
        plainly = [plain(one) for one in self.layouts]
        new = self.programs.records() if self.layouts else []
        records = [self.state.arrays.get(f"ps/{k}", record) for k, record in enumerate(new)]

        def open_(task: Task) -> None:
            self._ask(task, "opened", plainly, records[task.index] if task.job == SERVER else None)

        self._each(open_, list(self.spec.tasks))
        for one, record in zip(self.layouts, records, strict=True):
            self._begin_at(one, record)

    def _begin_at(self, one: Layout, record: np.ndarray) -> None:
        """Forget the updates that came after the record, and take from it what the tasks could not say of before."""
        version = one.version(record)
        late = [key for key in self.ran.noted if key[0] == one.server and key[1] > version]
        for key in late:
            del self.ran.noted[key]
        for worker, steps in enumerate(one.steps(record)):
            self._note([one.applied(record, worker, k) for k in range(max(0, steps - KEPT), steps)])

    def _compile_first(self, task: Task) -> None:
        self._compiled(task, self.programs.arrays(task, min(self.at[task], self.asked.steps - 1)))
        for variable in self.programs.own(task):
            held = self.state.arrays.get(f"worker/{task.index}/{variable.name}")
            if held is not None:
                self.backends[task].set_value(variable, held)

    def _compiled(self, task: Task, arrays: Sequence[np.ndarray]) -> Compiled:
        key = task, shapes(arrays)
        if key not in self.compiled:
            traced = self.programs.of(task, arrays)
            made = compiled(self.backends[task], traced, self.layouts, self.engine, self.asked.devices)
            self.compiled[key] = made
            self._same_reductions(task, made)
        return self.compiled[key]

    def _same_reductions(self, task: Task, made: Compiled) -> None:
        """Tasks in step reduce the same arrays, in the same order."""
        for (other, _), one in list(self.compiled.items()):
            if one.reduced != made.reduced:
                raise ClusterError(
                    f"{task} and {other} reduce other arrays with each other: {made.reduced} and {one.reduced}; "
                    "every task calls xb.all_reduce(across=task) for the same arrays in the same order"
                )

    # --- steps -----------------------------------------------------------------------------------------------------

    def _in_step(self) -> None:
        """All workers take the same steps; a checkpoint is of all of them."""
        step, asked = self.state.step, self.asked
        while step < asked.steps:
            until = min(asked.steps, step - step % asked.every + asked.every)
            pace = max(self.pace.values(), default=0.0)
            count = min(until - step, MOST, max(1, int(CHUNK / pace))) if pace else 1
            self._each(lambda task, n=count: self._advance(task, n), self.workers)  # type: ignore[misc]
            step += count
            if step % asked.every == 0 or step == asked.steps:
                self._keep(step)

    def _out_of_step(self) -> None:
        """Each worker takes its own steps; one that is lost comes back where the engine lets it."""
        for task, done in zip(self.workers, self._done(), strict=True):
            self.at[task] = done
        self._each(self._alone, self.workers)
        self._keep_servers(now=True)

    def _alone(self, task: Task) -> None:
        while self.at[task] < self.asked.steps:
            pace = self.pace.get(task)
            count = min(self.asked.steps - self.at[task], MOST, max(1, int(CHUNK / pace))) if pace else 1
            try:
                with self._gate.passed():
                    self._advance(task, count)
            except (WorkerDied, WorkerTimeout) as error:
                self._again(task, error)
            except Lost as lost:
                if not isinstance(lost.why, WorkerError):
                    raise
                self._again(task, lost.why)
            if self.at[task] % self.asked.every < count:
                self._keep_servers()

    def _again(self, task: Task, error: WorkerError) -> None:
        """Start one task again while the others go on; what it had done it reads from the servers."""
        seen = time.monotonic()
        with self._lock:
            allowed = self._comes_back(task) and len(self.ran.faults) < self.asked.restarts
        if not allowed or any(self._gone(server) for server in self.servers):
            raise error
        step = self.at[task]
        self.backends[task].worker.end()
        self._start(task)
        for key in [key for key in list(self.compiled) if key[0] == task]:
            del self.compiled[key]
        self.pace.pop(task, None)  # its next step is one that compiles
        self._tell()
        self._ask(task, "opened", [plain(one) for one in self.layouts], None)
        self._compile_first(task)
        self._catch_up(task)
        fault = Fault(str(task), step, _short(error), str(task), time.monotonic() - seen)
        with self._lock:
            self.ran.faults.append(fault)
        self.asked.on_line(f"{task} was lost at step {step} ({fault.why}) and goes on at step {self.at[task]}")

    def _catch_up(self, task: Task) -> None:
        """What a task that was lost had done and could not say."""
        records = [self._ask(server, "record", limit=self.asked.limit) for server in self.servers]
        done = [one.steps(record)[task.index] for one, record in zip(self.layouts, records, strict=True)]
        for one, record, steps in zip(self.layouts, records, done, strict=True):
            entries = [one.applied(record, task.index, k) for k in range(self.at[task], steps)]
            self._note(entries)
        self.at[task] = min(done)

    def _comes_back(self, task: Task) -> bool:
        return self.asked.asynchronous and self.engine.rejoins and task.job == WORKER

    def _gone(self, task: Task) -> bool:
        return starting.ended(self.backends[task])

    def _advance(self, task: Task, count: int) -> None:
        """So many steps of a task."""
        first = begin = self.at[task]
        batches: list[list[np.ndarray]] = []
        for number in range(first, first + count):
            arrays = self.programs.arrays(task, number)
            held = sum(array.nbytes for batch in batches for array in batch)
            if batches and held > AT_ONCE:
                self._take(task, begin, batches)
                begin, batches = number, []
            batches.append(arrays)
        self._take(task, begin, batches)
        self.at[task] = first + count

    def _take(self, task: Task, first: int, batches: Sequence[Sequence[np.ndarray]]) -> None:
        """Steps in a row, with what was compiled for the shapes of each."""
        own = [self._compiled(task, arrays).step for arrays in batches]
        steps = list({id(step): step for step in own}.values())
        places = {id(step): k for k, step in enumerate(steps)}
        given = [(places[id(step)], arrays) for step, arrays in zip(own, batches, strict=True)]
        pace = self.pace.get(task)
        limit = (self.asked.limit + pace * len(batches) if pace else self.asked.start_limit) + 2 * CHUNK
        answer = self._ask(task, "advance", steps, first, given, limit=limit)
        self._took(task, batches, first, answer)

    def _took(self, task: Task, batches: Sequence[Sequence[np.ndarray]], first: int, answer: Mapping[str, Any]) -> None:
        structures = [self.programs.of(task, arrays).program.structure for arrays in batches]
        outputs = [unflatten(own, given) for own, given in zip(structures, answer["outputs"], strict=True)]
        with self._lock:
            kept = self.ran.outputs.setdefault(task.index, {})
            small = sum(array.nbytes for array in answer["outputs"][0]) <= SMALL
            if not small:
                kept.clear()
            kept.update({first + k: own for k, own in enumerate(outputs) if small or k == len(outputs) - 1})
            seconds = self.ran.seconds.setdefault(task.index, [])
            seconds += answer["seconds"] if self.pace.get(task) else answer["seconds"][1:]
            if not self.pace.get(task) and not self.ran.faults:
                self.ran.build = time.monotonic() - self.met
            self.ran.moved = {k: v + self.ran.moved.get(k, 0) for k, v in answer["moved"].items()}
        self._note([Applied.of(plain) for plain in answer["applied"]])
        steady = answer["seconds"] if self.pace.get(task) else answer["seconds"][-1:]
        self.pace[task] = max(1e-6, float(np.median(steady)))
        self._say(task, first + len(outputs), outputs[-1])

    def _note(self, entries: Sequence[Applied]) -> None:
        with self._lock:
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

    def _records(self) -> list[np.ndarray]:
        return self._each(lambda task: self._ask(task, "record"), self.servers)

    def _values(self) -> list[dict[str, np.ndarray]]:
        """Of each worker's own variables."""

        def own(task: Task) -> dict[str, np.ndarray]:
            return {v.name: self.backends[task].get_value(v) for v in self.programs.own(task)}

        return self._each(own, self.workers)

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
            records = [self._ask(task, "record") for task in self.servers]
        arrays = {f"ps/{k}": record for k, record in enumerate(records)}
        done = [
            min(own)
            for own in zip(*(self.layouts[k].steps(arrays[f"ps/{k}"]) for k in range(len(arrays))), strict=True)
        ]
        self._kept(State(min(done), arrays))

    def _kept(self, state: State) -> None:
        with self._lock:
            if state.step < self.state.step:
                return
            self.state = state
            if self.asked.folder is not None:
                checkpoints.write(self.asked.folder, Checkpoint(state.arrays, self.fingerprint, state.step, {}))

    def _finish(self) -> None:
        """Read what it came to, and see that every update is in, once."""
        ran = self.ran
        for task, one, record in zip(self.servers, self.layouts, self._records(), strict=True):
            wanted = [self.asked.steps] * len(self.workers)
            if one.steps(record) != wanted or one.version(record) != sum(wanted):
                raise ClusterError(
                    f"{task} has {one.version(record)} updates, {one.steps(record)} of the workers, in place of "
                    f"{sum(wanted)}: please report this"
                )
            for name, array in one.arrays(record).items():
                ran.variables[f"{task}/{name}"] = array.copy()
        for task, values in zip(self.workers, self._values(), strict=True):
            ran.variables.update({f"{task}/{name}": value for name, value in values.items()})

    # --- all at once -----------------------------------------------------------------------------------------------

    def _each(self, do: Callable[[Task], T], tasks: Sequence[Task]) -> list[T]:
        """Do it for all tasks at once. Raises `Lost` for the one that was lost, where one was."""
        futures = {self.pool.submit(do, task): task for task in tasks}
        stopped: dict[Task, float] = {}
        left = set(futures)
        while left:
            done, left = wait(left, timeout=0.25, return_when=FIRST_COMPLETED)
            if any(future.exception() is not None for future in done):
                raise self._lost(futures, left)
            if left:
                self._see_stopped(stopped)
        return [future.result() for future in futures]

    def _see_stopped(self, stopped: dict[Task, float]) -> None:
        now = time.monotonic()
        for task, backend in list(self.backends.items()):
            if not starting.is_stopped(backend):
                stopped.pop(task, None)
            elif now - stopped.setdefault(task, now) > STOPPED:
                why = WorkerTimeout(f"its process is stopped (SIGSTOP), for {STOPPED:g} s")
                if not self._comes_back(task):
                    raise self._gone_at(task, why)
                backend.worker.kill()  # the thread that waits for it starts it again

    def _lost(self, futures: Mapping[Future[Any], Task], left: set[Future[Any]]) -> BaseException:
        """What to raise: of those that failed the one that is the cause, which ended or hangs; the others miss it."""
        if not any(isinstance(error, WorkerDied) for error, _ in _failed(futures)):
            wait(left, timeout=GRACE)
        errors = _failed(futures)
        missed = all(isinstance(error, ClusterError) for error, _ in errors)
        errors += self._ended({task for _, task in errors}, GRACE if missed else 0.0)
        ranks = (WorkerDied, WorkerTimeout, ClusterError, WorkerError, BackendError)
        errors.sort(key=lambda one: next((k for k, kind in enumerate(ranks) if isinstance(one[0], kind)), -1))
        error, task = errors[0]
        if not isinstance(error, WorkerDied | WorkerTimeout | ClusterError):
            return error
        if isinstance(error, ClusterError) and not self.pace:
            return error  # it never began
        return self._gone_at(task, error)

    def _ended(self, known: Collection[Task], patience: float) -> list[tuple[BaseException, Task]]:
        """The other tasks whose processes are gone. Who had a connection with one may see that first."""
        end = time.monotonic() + patience
        while True:
            gone = [task for task, own in list(self.backends.items()) if task not in known and starting.ended(own)]
            if gone or time.monotonic() > end:
                return [(WorkerDied(f"{task} ended"), task) for task in gone]
            time.sleep(0.02)


def _failed(futures: Mapping[Future[Any], Task]) -> list[tuple[BaseException, Task]]:
    """What went wrong so far, and in which task: in that which was asked, where another one asked it."""
    found = list[tuple[BaseException, Task]]()
    for future, task in futures.items():
        error = future.exception() if future.done() and not future.cancelled() else None
        if error is not None:
            found.append((error.why, error.task) if isinstance(error, Lost) else (error, task))
    return found


def _short(error: BaseException) -> str:
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
