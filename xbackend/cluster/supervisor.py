"""The processes of a job from one start of all its tasks to the next: start, call, watch and end them, and find the
task that was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import partial
from subprocess import Popen
from typing import Any, TypeVar

from xbackend.cluster import starting
from xbackend.cluster.hosts import await_hosts, away
from xbackend.cluster.jobspec import JobSpec
from xbackend.cluster.starting import Starting, TaskBackend
from xbackend.engines.spec import SERVER, Task
from xbackend.errors import BackendError, ClusterError, WorkerAborted, WorkerDied, WorkerError, WorkerTimeout

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
LOOK = 0.25  # seconds from one look at the processes to the next
STOPPED = 1.5  # seconds after which a process that is stopped is lost
_STOPPED, _GONE = f"its process is stopped (SIGSTOP), for {STOPPED:g} s", "its process ended"
GRACE = 2.0  # seconds to tell the task that ended from those that only miss it, and for an idle one to answer
# The order in which errors count as the cause; kinds not listed come first. If several tasks fail, the first in this
# order is the cause, and the others miss that task. JAX ends a process that misses another one by SIGABRT, which may be
# seen before the end of the missed one.
_CAUSES = (WorkerDied, WorkerAborted, WorkerTimeout, BackendError, WorkerError, ClusterError)


class Lost(Exception):
    """A task is gone, or waited in vain for another one. ``why`` is the cause."""

    def __init__(self, task: Task, step: int, why: Exception) -> None:
        super().__init__(str(why))
        self.task, self.step, self.why = task, step, why
        self.seen = time.monotonic()


class Supervisor:
    """The tasks' processes. ``step`` gives the present step of a task. ``comes_back`` says whether the calling thread
    starts a lost task again while the others go on. ``met``: all tasks have met, at this start or before."""

    def __init__(
        self, asked: JobSpec, how: Starting, step: Callable[[Task], int], comes_back: Callable[[Task], bool], met: bool
    ) -> None:
        self.asked, self.how, self.step, self.comes_back, self.met = asked, how, step, comes_back, met
        self.over = False  # all processes were ended
        self.backends: dict[Task, TaskBackend] = {}
        self._guards: dict[Task, Popen[bytes]] = {}  # of processes that have not reported yet
        self._reading: dict[Task, tuple[int, float]] = {}
        self._stopped: dict[Task, float] = {}
        self._killed = set[TaskBackend]()  # were stopped (SIGSTOP), and killed here
        self._looked = time.monotonic()
        self._lock = threading.Lock()
        self._calls: list[Future[Any]] = []

    # --- one process -----------------------------------------------------------------------------------------------

    def start(self, task: Task) -> None:
        """Start a task's process and wait until it has met the others.

        Raises `Lost`, and what `Starting.backend` raises. If all tasks have met before, its `ClusterError` is a loss.
        """
        try:
            self.how.backend(task, partial(self._guarded, task), partial(self._known, task))
        except (WorkerDied, WorkerTimeout, ClusterError) as error:
            if isinstance(error, ClusterError) and (self.over or not self.met):
                raise
            raise self.lost(task, error) from error
        finally:
            with self._lock:
                self._guards.pop(task, None)

    def _guarded(self, task: Task, guard: Popen[bytes]) -> Popen[bytes]:
        with self._lock:
            self._guards[task] = guard
            if self.over:
                guard.terminate()
        return guard

    def _known(self, task: Task, backend: TaskBackend) -> None:
        """A task has a process. From now on it is watched, and ended with the others."""
        with self._lock:
            self._guards.pop(task, None)
            self.needed(task)
            self.backends[task] = backend

    def again(self, task: Task) -> None:
        """Start one task again, once its host is reachable. Raises what `start` raises, and `ClusterError`."""
        self.backends[task].worker.end()
        await_hosts(list(filter(None, [self.how.place(task)])), self.asked.start_limit)
        self.start(task)

    def ask(self, task: Task, function: str, *arguments: Any, limit: float | None = None) -> Any:
        """Call a function of `xbackend.engines.member` in a task's process.

        Raises `Lost` where the task is gone, does not answer within ``limit`` seconds or waited in vain for another
        one, and what the function raises.
        """
        name = f"xbackend.engines.member:{function}"
        try:
            return self.backends[task].call(name, *arguments, limit=limit or self.asked.start_limit)
        except (WorkerDied, WorkerTimeout, ClusterError) as error:
            raise self.lost(task, error) from error

    @contextmanager
    def reading(self, task: Task, number: int) -> Iterator[None]:
        """The block calls the job's own functions for a step of a task. Raises `ClusterError` if all were ended."""
        self.needed(task)
        self._reading[task] = number, time.monotonic()
        try:
            yield
        finally:
            self._reading.pop(task, None)
        self.needed(task)

    def needed(self, task: Task) -> None:
        """Raises `ClusterError` where all were ended."""
        if self.over:
            raise ClusterError(f"{task} is not needed any more")

    def gone(self, task: Task) -> bool:
        """Whether a task's process has ended."""
        return starting.ended(self.backends[task])

    def end(self) -> None:
        """End all processes and their children. Wait `GRACE` seconds for the calls: a user's function may never end."""
        with self._lock:
            left, self.backends, self.over = list(self.backends.values()), {}, True
            for guard in self._guards.values():  # ends a process that has not reported yet
                guard.terminate()
        wait([begun(backend.worker.end) for backend in left])
        wait(self._calls, timeout=GRACE)

    def lost(self, task: Task, why: Exception) -> Lost:
        """The loss of a task at its present step."""
        if isinstance(why, WorkerDied) and (host := self.how.place(task)):
            why = WorkerDied(f"its process ended, or the connection to {host} was lost: {why}")
        return Lost(task, self.step(task), why)

    def loss(self, task: Task, seen: Lost | None = None) -> Lost:
        """The loss of a task that comes back. ``seen`` is the loss as its caller saw it."""
        if self.backends[task] in self._killed:
            return self.lost(task, WorkerTimeout(_STOPPED))
        return seen or self.lost(task, self._death(task) or WorkerDied(_GONE))

    def _death(self, task: Task) -> WorkerDied | None:
        """How a task's process died; `None` if only its caller is told."""
        try:
            self.backends[task].worker.check()
        except WorkerDied as error:
            return error
        return None

    # --- all at once -----------------------------------------------------------------------------------------------

    def each(self, do: Callable[[Task], T], tasks: Sequence[Task]) -> list[T]:
        """Call ``do`` for all tasks at once, and watch all processes meanwhile.

        Raises `Lost` for a lost task, and what else ``do`` raises.
        """
        futures = {begun(do, task): task for task in tasks}
        self._calls = [call for call in self._calls if not call.done()] + list(futures)
        left = set(futures)
        while left:
            done, left = wait(left, timeout=LOOK, return_when=FIRST_COMPLETED)
            if any(future.exception() is not None for future in done):
                raise self._cause(futures)
            if time.monotonic() - self._looked > LOOK:
                self._look()
        return [future.result() for future in futures]

    def _look(self) -> None:
        """Look for processes that ended or are stopped, even those not called now, and for data that does not come."""
        now = self._looked = time.monotonic()
        for task, backend in list(self.backends.items()):
            if task in self._guards:  # it is being started again; this backend is its predecessor
                continue
            back = self.comes_back(task)
            if self._stays(task, starting.is_stopped(backend)):
                if not back:
                    raise self.lost(task, WorkerTimeout(_STOPPED))
                self._killed.add(backend)
                backend.worker.kill()  # its waiting thread starts it again
            if not back and starting.ended(backend) and (death := self._death(task)) is not None:
                dead = [(death, task)]
                if isinstance(death, WorkerAborted):
                    dead += self._ended({task}, GRACE)
                death, task = _first_cause(dead)
                raise self.lost(task, death)
        for task, guard in list(self._guards.items()):
            if self._stays(task, starting.is_stopped_early(guard)):
                raise self.lost(task, WorkerTimeout(_STOPPED))
        for task, (number, since) in list(self._reading.items()):
            if now - since > self.asked.start_limit:
                raise ClusterError(
                    f"the job's own functions did not return for step {number} of {task} within "
                    f"{self.asked.start_limit:g} s: give them more time with --start-limit SECONDS"
                )

    def _stays(self, task: Task, stopped: bool) -> bool:
        """Whether the process of a task has been stopped for longer than `STOPPED` seconds."""
        if not stopped:
            self._stopped.pop(task, None)
        return stopped and self._looked - self._stopped.setdefault(task, self._looked) > STOPPED

    # --- who was lost ----------------------------------------------------------------------------------------------

    def _cause(self, futures: dict[Future[Any], Task]) -> BaseException:
        """The error to raise: that of the task which ended or hangs. The other tasks only miss it."""
        if not any(_kind(error) is WorkerDied for error, _ in _failed(futures)):
            wait(futures, timeout=GRACE)
        errors = _failed(futures)
        known = {task for _, task in errors}
        miss_another = all(_kind(error) in (ClusterError, WorkerAborted) for error, _ in errors)
        lost, task = _first_cause([*errors, *self._ended(known, GRACE if miss_another else 0.0)])
        if isinstance(lost, WorkerDied | WorkerTimeout):
            lost = self.lost(task, lost)
        if not isinstance(lost, Lost):
            return lost
        if isinstance(lost.why, WorkerDied):
            return self._cut_off() or lost
        if isinstance(lost.why, WorkerTimeout):
            return self._silent(known) or lost  # a worker that calls a stopped server times out too
        if not isinstance(lost.why, ClusterError):
            return lost
        return (self._missed(futures, known) or lost) if self.met else lost.why  # else the job never began

    def _ended(self, known: set[Task], patience: float) -> list[tuple[WorkerDied, Task]]:
        """The other tasks whose processes are gone, awaited for ``patience`` seconds: a task with a connection to one
        may see its end before this launcher."""
        end = time.monotonic() + patience
        while True:
            others = [task for task in self.backends if task not in known and not self.comes_back(task)]
            gone = [task for task in others if self.gone(task)]
            if gone or time.monotonic() > end:
                return [(self._death(task) or WorkerDied(_GONE), task) for task in gone]
            time.sleep(0.02)

    def _cut_off(self) -> Lost | None:
        """The loss of a task on an unreachable host, if any. Engines end the processes that miss such a task."""
        hosts = {host: task for task in self.backends if (host := self.how.place(task))}
        asked = {begun(away, host): host for host in hosts}
        wait(asked)
        for future, host in asked.items():
            if said := future.result():
                task = hosts[host]
                return Lost(task, self.step(task), WorkerDied(f"the connection to {host} was lost: {said}"))
        return None

    def _missed(self, futures: dict[Future[Any], Task], known: set[Task]) -> Lost | None:
        """The task that the others awaited in vain: a silent server, or the last task in its call, or one that never
        returns from it."""
        waited = next(str(error) for error, _ in _failed(futures))
        if (silent := self._silent(known)) is not None:
            return silent
        left, end = {future for future in futures if not future.done()}, time.monotonic() + self.asked.limit
        if not left or self.asked.asynchronous:
            return None
        while len(left) > 1 and time.monotonic() < end:
            left = wait(left, timeout=LOOK, return_when=FIRST_COMPLETED).not_done or {left.pop()}
        return self.lost(futures[left.pop()], WorkerTimeout(f"it did not come: {waited}"))

    def _silent(self, known: set[Task]) -> Lost | None:
        """The loss of a server that does not answer, or that an earlier call still occupies."""
        servers = [task for task in self.backends if task.job == SERVER and task not in known]
        asked = {task: begun(partial(self.ask, task, "listens", limit=GRACE)) for task in servers}
        wait(asked.values(), timeout=2.0 * GRACE)
        for task, answer in asked.items():
            if not answer.done():
                return self.lost(task, WorkerTimeout(f"it did not answer within {2.0 * GRACE:g} s"))
            if isinstance(error := answer.exception(), Lost):
                return error
        return None


def within(seconds: float, what: str, do: Callable[[], T]) -> T:
    """The result of a call of the user's functions. Raises `ClusterError` if it takes longer than ``seconds``."""
    call = begun(do)
    if wait([call], timeout=seconds).not_done:
        raise ClusterError(f"{what} did not return within {seconds:g} s: give it more time with --start-limit SECONDS")
    return call.result()


def begun(do: Callable[..., T], *arguments: Any) -> Future[T]:
    """A call in its own daemon thread, so that a user's function that never returns keeps no process alive."""
    future: Future[T] = Future()

    def go() -> None:
        try:
            future.set_result(do(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=go, name="xbackend-task", daemon=True).start()
    return future


def _failed(futures: dict[Future[Any], Task]) -> list[tuple[BaseException, Task]]:
    """The errors so far, each with its task. For a `Lost` that is the lost task, not its caller."""
    errors = [(future.exception(), task) for future, task in futures.items() if future.done()]
    return [(error, error.task if isinstance(error, Lost) else task) for error, task in errors if error is not None]


def _first_cause(errors: Sequence[tuple[E, Task]]) -> tuple[E, Task]:
    """The error that caused the others: see `_CAUSES`."""

    def place(one: tuple[E, Task]) -> int:
        kinds = _kind(one[0]).__mro__  # the nearest of its bases that is listed
        return next((_CAUSES.index(kind) for kind in kinds if kind in _CAUSES), -1)

    return min(errors, key=place)


def _kind(error: BaseException) -> type[BaseException]:
    """The kind of an error's cause. A `ClusterError` of the launcher itself is no loss of a task."""
    if isinstance(error, Lost):
        return type(error.why)
    return BaseException if isinstance(error, ClusterError) else type(error)
