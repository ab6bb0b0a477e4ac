"""A worker process as seen from xbackend: started, asked, ended whole, and its end explained."""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import shlex
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import execnet

from xbackend import errors
from xbackend.errors import WorkerDied, WorkerError, WorkerTimeout
from xbackend.workers import bootstrap, protocol
from xbackend.workers.endings import Ending
from xbackend.workers.spawning import Spawning

PACKAGE = Path(errors.__file__).resolve().parent
SMALL = 32_768  # bytes: what fits into a pipe even if the other side does not read
OWN_LIMIT = -1.0  # stands for the limit that the worker was started with
CLOSING = 10.0  # seconds that a backend has to close itself
_DAMAGED = (
    "If the environment is damaged, `xbackend doctor --verify` names it and `xbackend env sync NAME` makes it again."
)
FORCE = 4.0  # seconds after which a guard that was asked to end its worker is not waited for


@dataclass(frozen=True)
class Launch:
    """How a worker is started.

    Attributes:
        label: what messages call it: "backend 'tensorflow'".
        python: the interpreter of its environment.
        environment: variables set before it starts; `None` removes one.
        modules: top-level modules to make importable beside xbackend: name to file or package directory.
        memory: limit of its address space in bytes, or none.
        limit: seconds for the start, and for a request that gives no limit of its own; `None` for no limit.
    """

    label: str
    python: Path
    environment: Mapping[str, str | None] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    memory: int | None = None
    limit: float | None = 600.0


class Reference:
    """Something that lives in a worker. Freed there when the last reference here is gone."""

    __slots__ = ("__weakref__", "number", "worker")

    def __init__(self, worker: WorkerProcess, number: int) -> None:
        self.worker = worker
        self.number = number

    def __del__(self) -> None:
        # May run at any moment, also while a message is being sent: only noted, told with the next request.
        self.worker.freed.append(self.number)

    def __repr__(self) -> str:
        return f"<value {self.number} in the worker of {self.worker.label}>"


class WorkerProcess:
    """A process that hosts one backend. One request at a time; safe to use from several threads.

    Raises:
        WorkerError: it could not be started.
    """

    def __init__(self, launch: Launch) -> None:
        self.label = launch.label
        self.freed: deque[int] = deque()
        self._limit = launch.limit
        self._owner = os.getpid()
        self._turn = threading.Lock()
        self._failure: WorkerError | None = None
        self._overdue = False
        self._asked = 0  # requests
        self._directory = Path(tempfile.mkdtemp(prefix="xbackend-worker-"))
        self._spawning = Spawning()
        self._group = execnet.Group(execmodel=self._spawning)
        # Its own hook waits for a hung worker and then kills the guard only; `RemoteBackend` has a better one.
        atexit.unregister(self._group._cleanup_atexit)
        self._ended = False
        try:
            self._channel = self._connect(launch)
        except BaseException:
            self.end()
            raise

    def _connect(self, launch: Launch) -> Any:
        """Start guard and worker, and send the code that waits for requests."""
        outcome: deque[Any] = deque()

        def connect() -> None:
            # Until the guard has left xbackend's process group it would get a terminal's Ctrl-C too.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                gateway = self._group.makegateway(f"popen//python={self._command(launch)}")
                channel = gateway.remote_exec(bootstrap)
                channel.send({"modules": {**launch.modules, "xbackend": str(PACKAGE)}})
                outcome.append(channel)
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=connect, name="xbackend-worker-start", daemon=True)
        thread.start()
        thread.join(launch.limit)
        if not outcome:
            self._fail(self._timeout("start", launch.limit))
        if isinstance(outcome[0], BaseException):
            self._fail(self._start_failure(outcome[0], launch), outcome[0])
        return outcome[0]

    def _command(self, launch: Launch) -> str:
        configuration = {
            "report": str(self._report),
            "environment": {
                "PYTHONPATH": None,
                "PYTHONHOME": None,
                # What frameworks write for the time of the process (generated code, mostly) goes with it.
                "TMPDIR": str(self._directory),
                **launch.environment,
            },
            "memory": launch.memory,
        }
        text = base64.urlsafe_b64encode(json.dumps(configuration).encode()).decode()
        guard = PACKAGE / "workers" / "guard.py"
        return shlex.join([str(launch.python), "-I", "-S", str(guard), text])

    # --- requests --------------------------------------------------------------------------------------------------

    def request(self, operation: str, *content: object, limit: float | None = OWN_LIMIT) -> Any:
        """Ask the worker and wait for the answer.

        Args:
            operation: a name that `xbackend.workers.serving` knows.
            content: plain data, arrays, references.
            limit: seconds; `None` for none, not given for the worker's own.

        Raises:
            WorkerDied: the process ended, or ran out of memory, or answered what was not asked, and was ended.
            WorkerTimeout: it did not answer in time and was ended.
            WorkerError: the code that it ran raised something that is not an error of xbackend.
            XBackendError: what was raised there, of the same class and with the same message.
        """
        seconds = self._limit if limit == OWN_LIMIT else limit
        with self._turn:
            self._check_usable()
            freed = [self.freed.popleft() for _ in range(len(self.freed))]
            self._asked += 1
            message = {"number": self._asked, "operation": operation, "content": content, "free": freed}
            try:
                answer = self._exchange(message, seconds)
            except execnet.RemoteError as error:
                self._fail(self._refusal(operation, error), error)
            except protocol.Garbled as error:
                self._fail(self._garbled(operation, error), error)
            except (self._channel.TimeoutError, EOFError, OSError) as error:
                if self._overdue or isinstance(error, self._channel.TimeoutError):
                    self._fail(self._timeout(operation, seconds), error)
                self._fail(self._death(operation), error)
            except TypeError:  # something in it cannot be sent; nothing was
                self.freed.extend(freed)
                raise
            except BaseException:  # Ctrl-C: what the worker says from now on is the answer to an old question
                self._failure = WorkerDied(f"{self.label}: its worker was ended when {operation!r} was interrupted")
                self.end()
                raise
        return self._result(operation, answer)

    def _exchange(self, message: dict[str, Any], seconds: float | None) -> Any:
        end = None if seconds is None else time.monotonic() + seconds
        timer = None
        if seconds is not None and protocol.size(message) > SMALL:
            # A worker that hangs does not read either: sending would never return.
            timer = threading.Timer(seconds, self._stop_overdue)
            timer.daemon = True
            timer.start()
        try:
            protocol.send(self._channel, message, self._number)
            answer = protocol.receive(
                self._channel,
                lambda number: Reference(self, number),
                lambda: None if end is None else max(0.001, end - time.monotonic()),
            )
            protocol.check_answer(answer, message["number"])
            return answer
        finally:
            if timer is not None:
                timer.cancel()

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
        if answer["out_of_memory"]:
            self._failure = WorkerDied(
                f"{self.label}: its worker ran out of memory while it did {operation!r} and was ended. "
                f"{kind}: {message}\nUse smaller inputs, or leave it more memory; then open the backend again."
            )
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

    # --- the end ---------------------------------------------------------------------------------------------------

    @property
    def _report(self) -> Path:
        return self._directory / "report.json"

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of `guard` and `worker`; empty before they are there and after the end."""
        return _read(Path(f"{self._report}.pids")) or {}

    def close(self) -> None:
        """End the worker in peace; may be called again."""
        try:
            if self._failure is None and os.getpid() == self._owner:
                self.request("close", limit=CLOSING)
        except (WorkerDied, WorkerTimeout):  # the end is what was wanted
            pass
        finally:
            self.end()

    def end(self, number: signal.Signals = signal.SIGTERM) -> Ending:
        """End the worker now, with everything that it started; may be called again.

        Args:
            number: SIGQUIT lets it write down where it hangs before.
        """
        if os.getpid() != self._owner or self._ended:
            return Ending.unknown()
        report = _read(self._report)
        if report is None and self.pids:
            self._signal(number)
            report = self._await_report(FORCE)
        if report is None:  # the guard itself does not run any more
            self._signal(signal.SIGKILL)
        self._group.terminate(timeout=1.0)
        self._spawning.end()
        self._ended = True
        shutil.rmtree(self._directory, ignore_errors=True)
        if self._failure is None:
            self._failure = WorkerError(f"{self.label} was closed")
        return Ending.read(report)

    def _signal(self, number: signal.Signals) -> None:
        pids = self.pids
        if number is signal.SIGKILL and pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pids["worker"], number)
        if pids:  # not reaped before `terminate`: the number cannot belong to another process
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids["guard"], number)

    def _stop_overdue(self) -> None:
        self._overdue = True
        self._signal(signal.SIGQUIT)

    def _await_report(self, seconds: float) -> dict[str, Any] | None:
        end = time.monotonic() + seconds
        while (report := _read(self._report)) is None and time.monotonic() < end and not self._guard_ended():
            time.sleep(0.005)
        return report or _read(self._report)

    def _guard_ended(self) -> bool:
        """Whether the guard is over, without taking note of it: that is execnet's to do."""
        guard = self.pids.get("guard")
        if guard is None or not hasattr(os, "waitid"):  # macOS before Python 3.13: the full time is waited
            return False
        try:
            return os.waitid(os.P_PID, guard, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    # --- errors ----------------------------------------------------------------------------------------------------

    def _fail(self, error: WorkerError, cause: BaseException | None = None) -> None:
        self._failure = error
        raise error from cause

    def _timeout(self, operation: str, seconds: float | None) -> WorkerTimeout:
        ending = self.end(signal.SIGQUIT)
        return WorkerTimeout(
            f"{self.label}: its worker did not finish {operation!r} within {seconds:g} s and was ended."
            f"{ending.words()}\nGive it more time (limit=SECONDS), or less to do."
        )

    def _death(self, operation: str) -> WorkerDied:
        self._await_report(2.0)  # its end is on the way; no signal of ours shall be taken for the cause
        ending = self.end()
        return WorkerDied(
            f"{self.label}: its worker {ending.how()} while it did {operation!r}.{ending.meaning()}{ending.words()}\n"
            f"{ending.advice()}"
        )

    def _refusal(self, operation: str, error: execnet.RemoteError) -> WorkerDied:
        """It is there, and what serves the requests is not: something that it imports is missing or broken."""
        self.end()
        words = str(error.formatted).strip().splitlines()
        return WorkerDied(
            f"{self.label}: its worker could not do {operation!r}: {words[-1] if words else error!r}. "
            f"It was ended.\n{_DAMAGED}"
        )

    def _garbled(self, operation: str, error: protocol.Garbled) -> WorkerDied:
        ending = self.end()
        return WorkerDied(
            f"{self.label}: its worker answered {operation!r} with something else ({error}) and was ended. What it "
            f"runs writes to the connection between the two, or forked a process that does.{ending.words()}\n"
            "Open the backend again."
        )

    def _start_failure(self, error: BaseException, launch: Launch) -> WorkerError:
        if not isinstance(error, FileNotFoundError | PermissionError):  # there was a process
            self._await_report(2.0)
        ending = self.end()
        how = ending.how() if ending.known else f"did not start: {type(error).__name__}: {error};"
        return WorkerError(
            f"{self.label}: its worker {how} at its start with {launch.python}.{ending.words()}\n{_DAMAGED}"
        )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return content
