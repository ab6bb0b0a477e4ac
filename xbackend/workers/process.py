"""A worker process seen from xbackend: start it, send requests, end it, and explain its end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import IO, Any, NoReturn

from xbackend import errors
from xbackend.errors import WorkerAborted, WorkerDied, WorkerError, WorkerTimeout
from xbackend.workers import bootstrap, endings, protocol
from xbackend.workers.endings import DAMAGED, Ending

PACKAGE = Path(errors.__file__).resolve().parent
OWN_LIMIT = -1.0  # stands for the limit that the worker was started with
CLOSING = 10.0  # seconds in which a backend may close itself
FORCE = 4.0  # seconds to wait for a guard that was asked to end its worker

Start = Callable[[list[str]], Popen[bytes]]  # starts a command; its input and output are pipes


def _child(command: list[str]) -> Popen[bytes]:
    return Popen(command, bufsize=0, stdin=PIPE, stdout=PIPE, start_new_session=True)


@dataclass(frozen=True)
class Launch:
    """How a worker is started: see `xbackend.workers.remote.RemoteBackend`, whose arguments these are.

    ``label`` is its name in messages: "backend 'tensorflow'". ``limit`` is also that of its start. ``cores`` are the
    processor cores that it may use, by number; those of this process if not given.
    """

    label: str
    python: Path
    environment: Mapping[str, str | None] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    memory: int | None = None
    limit: float | None = 600.0
    cores: Sequence[int] | None = None
    start: Start | None = None
    leaves: Sequence[Path] = ()


class Reference:
    """An object in a worker. It is freed there when the last reference here is gone."""

    __slots__ = ("__weakref__", "number", "worker")
    is_device_value = True
    device = None  # the worker knows

    def __init__(self, worker: WorkerProcess, number: int) -> None:
        self.worker = worker
        self.number = number

    def __del__(self) -> None:
        # May run at any moment, even while a message is being sent: only noted, sent with the next request.
        self.worker.freed.append(self.number)

    def __repr__(self) -> str:
        return f"<value {self.number} in the worker of {self.worker.label}>"


class WorkerProcess:
    """A process that hosts one backend. One request at a time; safe to use from several threads.

    ``limit`` is how many seconds a request may take that has no limit of its own; it may be set.

    Raises:
        WorkerError: it could not be started.
    """

    def __init__(self, launch: Launch) -> None:
        self.label = launch.label
        self.freed: deque[int] = deque()
        self.limit = launch.limit
        self._owner = os.getpid()
        self._turn = threading.Lock()
        self._failure: WorkerError | None = None
        self._asked = 0  # requests
        self._directory = Path(tempfile.mkdtemp(prefix="xbackend-worker-"))
        self._guard: Popen[bytes] | None = None
        self._ended = False
        try:
            self._start(launch)
        except BaseException:  # also Ctrl-C while it waits for the reason of a failure
            self.end()
            raise

    def _start(self, launch: Launch) -> None:
        """Start guard and worker, and wait until the worker is ready."""
        end = _end(launch.limit)
        try:
            # In its own session: a terminal's Ctrl-C is for xbackend.
            self._guard = (launch.start or _child)(self._command(launch))
            reader, writer = (pipe.fileno() for pipe in self._pipes())
            os.set_blocking(writer, False)  # a worker that hangs does not read either
            self._connection = protocol.Connection(reader, writer)
            self._connection.read(len(bootstrap.READY), end)
        except TimeoutError as error:
            self._fail(self._timeout("start", launch.limit), error)
        except (EOFError, OSError) as error:
            self._fail(self._start_failure(error, launch), error)

    def _command(self, launch: Launch) -> list[str]:
        configuration = {
            "report": str(self._report),
            "environment": {
                "PYTHONPATH": None,
                "PYTHONHOME": None,
                # The frameworks' temporary files (generated code, mostly) are removed with it.
                "TMPDIR": str(self._directory),
                **launch.environment,
            },
            "memory": launch.memory,
            "cores": None if launch.cores is None else list(launch.cores),
            "modules": {**launch.modules, "xbackend": str(PACKAGE)},
            "leaves": list(map(str, launch.leaves)),
        }
        guard = PACKAGE / "workers" / "guard.py"
        return [str(launch.python), "-I", "-S", str(guard), json.dumps(configuration)]

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """The pipes of answers and of requests."""
        assert self._guard is not None and self._guard.stdout is not None and self._guard.stdin is not None
        return self._guard.stdout, self._guard.stdin

    # --- requests --------------------------------------------------------------------------------------------------

    def request(self, operation: str, *content: object, limit: float | None = OWN_LIMIT) -> Any:
        """Ask the worker and wait for the answer.

        Args:
            operation: a name that `xbackend.workers.serving` knows.
            content: plain data, arrays, references.
            limit: seconds; `None` for none, not given for the worker's own.

        Raises:
            WorkerDied: the process ended; or it ran out of memory or sent a wrong answer, and was ended.
            WorkerTimeout: it did not answer in time and was ended.
            WorkerError: an error of the worker's code that is none of xbackend's.
            XBackendError: an error of xbackend's raised there, with its class and message.
        """
        seconds = self.limit if limit == OWN_LIMIT else limit
        with self._turn:
            self._check_usable()
            freed = [self.freed.popleft() for _ in range(len(self.freed))]
            self._asked += 1
            message = {"number": self._asked, "operation": operation, "content": content, "free": freed}
            try:
                parts = protocol.encoded(message, self._number)
            except BaseException:  # its content cannot be sent, and nothing was
                self.freed.extend(freed)
                raise
            try:
                end = _end(seconds)
                self._connection.write(*parts, end=end)
                answer = protocol.receive(self._connection, lambda number: Reference(self, number), end)
                protocol.check_answer(answer, self._asked)
            except protocol.Garbled as error:
                self._fail(self._garbled(operation, error), error)
            except TimeoutError as error:
                self._fail(self._timeout(operation, seconds), error)
            except (EOFError, OSError) as error:
                self._fail(self._death(operation), error)
            except BaseException:  # Ctrl-C: the worker's next answer would belong to this request
                self._failure = WorkerDied(f"{self.label}: its worker was ended when {operation!r} was interrupted")
                self.end()
                raise
        return self._result(operation, answer)

    def _number(self, item: object) -> int | None:
        if not isinstance(item, Reference):
            return None
        if item.worker is not self:
            raise WorkerError(f"{item!r} cannot be used on {self.label}: get it to the host and put it there")
        return item.number

    def _result(self, operation: str, answer: dict[str, Any]) -> Any:
        if "result" in answer:
            return answer["result"]
        kind, message = answer["error"], answer["message"]
        if answer["out_of_memory"] or answer["of_driver"]:
            said = endings.exhausted if answer["out_of_memory"] else endings.lost
            self._failure = WorkerDied(f"{self.label}: {said(operation, f'{kind}: {message}', answer['accelerated'])}")
            self.end()
            error: errors.XBackendError = self._failure
        else:
            known = getattr(errors, kind, None) if answer["ours"] else None
            if isinstance(known, type) and issubclass(known, errors.XBackendError):
                error = known(message)
            else:
                error = WorkerError(f"{self.label}: {kind} in its worker while it did {operation!r}: {message}")
        error.add_note(f"In the worker of {self.label}:\n{answer['traceback']}")
        raise error

    def _check_usable(self) -> None:
        if os.getpid() != self._owner:
            raise WorkerError(
                f"{self.label} was opened in process {self._owner} and cannot be used in process {os.getpid()}, "
                "which was forked from it: open it again there"
            )
        if self._failure is not None:
            raise type(self._failure)(f"{self._failure}\n(That was earlier; open the backend again.)")

    def check(self) -> None:
        """For an ended process. Raises `WorkerDied`, unless a caller of `request` gets it."""
        if self._turn.acquire(blocking=False):
            try:
                if self._failure is None:
                    self._failure = self._death("")
                    raise self._failure
            finally:
                self._turn.release()

    # --- the end ---------------------------------------------------------------------------------------------------

    @property
    def _report(self) -> Path:
        return self._directory / "report.json"

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of `guard` and `worker`; empty before the start and after the end."""
        return _read(Path(f"{self._report}.pids")) or {}

    def kill(self) -> None:
        """Kill the worker. A waiting `request` raises `WorkerDied`."""
        with contextlib.suppress(KeyError, ProcessLookupError):
            os.kill(self.pids["worker"], signal.SIGKILL)

    def close(self) -> None:
        """Close the backend, then end the worker; may be called again."""
        try:
            if self._failure is None and os.getpid() == self._owner:
                self.request("close", limit=CLOSING)
        except (WorkerDied, WorkerTimeout):  # the end is what was wanted
            pass
        finally:
            self.end()

    def end(self, number: signal.Signals = signal.SIGTERM) -> Ending:
        """End the worker now, with its descendants; may be called again.

        Args:
            number: SIGQUIT lets it write its stack first.
        """
        if os.getpid() != self._owner or self._ended:
            return Ending()
        if self._failure is None:  # set first: another thread must not take the end for a loss
            self._failure = WorkerError(f"{self.label} was closed")
        report, pids = _read(self._report), self.pids
        if self._guard is not None:
            if report is None and pids:
                self._guard.send_signal(number)
                report = self._await_report(FORCE)
            if report is None:  # the guard has ended or hangs
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pids["worker"], signal.SIGKILL) if pids else None
                self._guard.kill()
            for pipe in self._pipes():
                pipe.close()
            try:
                self._guard.wait(1.0)
            except TimeoutExpired:
                self._guard.kill()
                self._guard.wait()
        self._ended = True
        shutil.rmtree(self._directory, ignore_errors=True)
        return Ending() if report is None else Ending(True, **report)

    def _await_report(self, seconds: float) -> dict[str, Any] | None:
        end = time.monotonic() + seconds
        while (report := _read(self._report)) is None and time.monotonic() < end and self.runs:
            time.sleep(0.005)
        return report or _read(self._report)

    @property
    def runs(self) -> bool:
        """Whether the worker's guard, or the ssh that leads to it, runs."""
        return self._guard is not None and self._guard.poll() is None

    # --- errors ----------------------------------------------------------------------------------------------------

    def _fail(self, error: WorkerError, cause: BaseException) -> NoReturn:
        self._failure = error
        raise error from cause

    def _timeout(self, operation: str, seconds: float | None) -> WorkerTimeout:
        ending = self.end(signal.SIGQUIT)
        return WorkerTimeout(
            f"{self.label}: its worker did not finish {operation!r} within {seconds:g} s and was ended."
            f"{ending.words()}\nGive it more time (limit=SECONDS), or less to do."
        )

    def _death(self, operation: str) -> WorkerDied:
        self._await_report(2.0)  # its own end comes first, so that no signal of ours counts as the cause
        ending = self.end()
        did = repr(operation) if operation else "nothing"
        died = WorkerAborted if ending.signal_name == "SIGABRT" and not ending.by_xbackend else WorkerDied
        return died(
            f"{self.label}: its worker {ending.how()} while it did {did}.{ending.meaning()}{ending.words()}\n"
            f"{ending.advice()}"
        )

    def _garbled(self, operation: str, error: protocol.Garbled) -> WorkerDied:
        ending = self.end()
        return WorkerDied(
            f"{self.label}: its worker answered {operation!r} with something else ({error}) and was ended. What it "
            f"runs writes to the connection between the two, or forked a process that does.{ending.words()}\n"
            "Open the backend again."
        )

    def _start_failure(self, error: BaseException, launch: Launch) -> WorkerError:
        self._await_report(2.0)
        ending = self.end()
        how = ending.how() if ending.known else f"did not start: {type(error).__name__}: {error};"
        lost = isinstance(error, EOFError) if not ending.known else ending.signal_name and not ending.by_xbackend
        kind = WorkerDied if lost else WorkerError
        return kind(f"{self.label}: its worker {how} at its start with {launch.python}.{ending.words()}\n{DAMAGED}")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return content


def _end(seconds: float | None) -> float | None:
    """The monotonic time after so many seconds."""
    return None if seconds is None else time.monotonic() + seconds
