"""The process between xbackend and a worker: it makes sure that the worker ends, and reports how.

A script for the environment's Python (standard library only), on the worker's machine:

    python -I -S guard.py CONFIGURATION

It starts the worker in its own session, and hands it its own input and output, so messages pass directly. It keeps the
end of the worker's printed output. When the worker has ended, or xbackend is gone, it kills all descendants of the
worker, even outside its process group, removes the files in `leaves`, and writes a report.

`CONFIGURATION` is JSON: `report` (the file to write), `environment` (variables to set; null removes one), `memory`
(bytes of address space, or null), `cores` (those that the worker may use, or null), `modules` (importable ones, see
`bootstrap.py`), `leaves` (files that a killed worker leaves).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from typing import Any

MESSAGES = 3  # the worker's descriptor for its answers, as in `bootstrap.py`
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KEPT = 32_768  # bytes of error output
PATIENCE = 0.5  # seconds in which a worker may end by itself after its input is closed
DUMP = 1.0  # seconds in which a hung worker may write its stack
TICK_MS = 1000


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere a look at the parent's id, once a second, replaces it."""
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def start_worker(command: list[str], configuration: dict[str, Any], stderr: int) -> int:
    """Fork and execute; returns the worker's process id."""
    guard = os.getpid()
    worker = os.fork()
    if worker:
        return worker
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        os.dup2(1, MESSAGES)
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if configuration["memory"] is not None:
            resource.setrlimit(resource.RLIMIT_AS, (configuration["memory"],) * 2)
        if configuration["cores"] is not None:
            os.sched_setaffinity(0, configuration["cores"])
        environment = dict(os.environ)
        for name, value in configuration["environment"].items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        os.execve(command[0], command, environment)
    except BaseException as error:
        os.write(2, f"{command[0]} could not be started: {error}\n".encode())
    os._exit(127)


class Guard:
    """Waits until the worker ends, xbackend is gone, or xbackend asks for the end."""

    def __init__(self, command: list[str], configuration: dict[str, Any]) -> None:
        self.report, self.leaves = configuration["report"], configuration["leaves"]
        self.made = not os.path.isdir(os.path.dirname(self.report))  # as on another host than xbackend's
        if self.made:
            os.makedirs(os.path.dirname(self.report), mode=0o700)
        self.xbackend = os.getppid()
        self.asked = 0
        self.tail = b""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for xbackend
        prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans become children of this process
        for pipe in (0, 1):
            widen(pipe)
        self.wakeup, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, self._signalled)
        self.stderr, stderr = os.pipe()
        os.set_blocking(self.stderr, False)
        self.oom_kills = oom_kills()
        self.worker = start_worker(command, configuration, stderr)
        os.close(stderr)
        write(f"{self.report}.pids", {"guard": os.getpid(), "worker": self.worker})
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)  # else xbackend would not see the end of the worker's output

    def _signalled(self, number: int, frame: object) -> None:
        if number != signal.SIGCHLD:
            self.asked = number

    def run(self) -> None:
        poll = select.poll()
        poll.register(0, 0)  # only for its hang-up: the input is the worker's
        poll.register(self.stderr, select.POLLIN)
        poll.register(self.wakeup, select.POLLIN)
        deadline, why, ended = float("inf"), "it ended by itself", None
        while ended is None:
            for file, _ in poll.poll(min(TICK_MS, max(0.0, deadline - time.monotonic()) * 1000)):
                if file == 0:
                    poll.unregister(0)
                    deadline, why = min(deadline, time.monotonic() + PATIENCE), "xbackend closed the connection"
                elif file == self.stderr:
                    if not self._read():
                        poll.unregister(self.stderr)
                else:
                    os.read(self.wakeup, 512)
            if os.getppid() != self.xbackend and why != "xbackend ended":
                deadline, why = min(deadline, time.monotonic() + PATIENCE), "xbackend ended"
            if self.asked:
                deadline, why = self._asked(deadline), "xbackend ended it"
            if time.monotonic() >= deadline:
                os.kill(self.worker, signal.SIGKILL)  # its descendants are killed once it is gone
            ended = self._reap()
        self._finish(why, *ended)

    def _asked(self, deadline: float) -> float:
        """The time of the end: now, or once faulthandler has had time to write the worker's stack."""
        number, self.asked = self.asked, 0
        if number == signal.SIGTERM:
            return 0.0
        os.kill(self.worker, signal.SIGABRT)
        return min(deadline, time.monotonic() + DUMP)

    def _read(self) -> bytes:
        try:
            data = os.read(self.stderr, 65536)
        except BlockingIOError:
            return b"?"
        self.tail = (self.tail + data)[-KEPT:]
        return data

    def _reap(self) -> tuple[int, int] | None:
        """Reap children. Returns the worker's status and peak memory (bytes) once it has ended."""
        while True:
            try:
                child, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return 127 << 8, 0
            if child == 0:
                return None
            if child == self.worker:
                return status, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def _finish(self, why: str, status: int, peak: int) -> None:
        self._kill_orphans()
        for path in self.leaves:
            with contextlib.suppress(OSError):  # gone, as after a worker that ended by itself
                os.unlink(path)
        while self._read() not in (b"", b"?"):
            pass
        write(
            self.report,
            {
                "worker": self.worker,
                "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
                "status": None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status),
                "why": why,
                "peak_bytes": peak,
                "oom_kills": oom_kills() - self.oom_kills,
                "stderr": self.tail.decode("utf-8", "replace"),
            },
        )
        if os.getppid() != self.xbackend or self.made:  # nobody reads the report
            shutil.rmtree(os.path.dirname(self.report), ignore_errors=True)

    def _kill_orphans(self) -> None:
        """Kill the worker's descendants. Their children become ours when they end, so look until there are none."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.worker, signal.SIGKILL)
        end = time.monotonic() + 5.0
        while time.monotonic() < end:
            for child in children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.005)
            except ChildProcessError:
                break


def widen(pipe: int) -> None:
    """Let a pipe hold 1 MiB in place of 64 KiB, if possible: arrays pass with fewer context switches."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # no pipe, or the user's limit is reached
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)


def children() -> list[int]:
    """Process ids of this process's children (Linux)."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # another system, or a kernel without this file
        return []


def oom_kills() -> int:
    """How often the kernel's out-of-memory killer has struck on this machine (Linux)."""
    try:
        with open("/proc/vmstat") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except FileNotFoundError:
        return 0


def write(path: str, content: dict[str, Any]) -> None:
    """Write JSON atomically."""
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.rename(f"{path}.new", path)
    except OSError as error:  # xbackend ended and removed the directory
        print(f"guard: {error}", file=sys.stderr)


def main(configuration: dict[str, Any]) -> None:
    first = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap.py")
    # Isolated: no PYTHONPATH, no user packages. faulthandler writes the Python stack when a signal ends the worker.
    command = [sys.executable, "-I", "-u", "-X", "faulthandler", first, json.dumps(configuration["modules"])]
    Guard(command, configuration).run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
