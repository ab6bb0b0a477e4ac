"""How the processes of a cluster are started on this machine, watched and ended."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Any

from xbackend.cluster.pmi import Meeting
from xbackend.cluster.tasks import TaskBackend, joined
from xbackend.engines.registry import Entry
from xbackend.engines.spec import ClusterSpec, Task
from xbackend.errors import ClusterError

if TYPE_CHECKING:
    from xbackend.cluster.asked import Asked

# One host: nothing is listened on, and what waits is not to take the core of who computes.
_SHARED = {"UCX_TLS": "self,posix", "MPI4PY_RC_THREADS": None}


def local(workers: int, servers: int, host: str = "127.0.0.1") -> ClusterSpec:
    """A cluster on this machine, with ports that are free now. Raises `ClusterError`."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(workers + servers):
            own = stack.enter_context(socket.socket(socket.AF_INET))
            try:
                own.bind((host, 0))
            except OSError as error:
                raise ClusterError(f"there is no free port on {host}: {error}") from None
            ports.append(own.getsockname()[1])
    return ClusterSpec.local(ports, servers, host)


@dataclass
class Starting:
    """What starts the tasks of one attempt."""

    asked: Asked
    engine: Entry
    spec: ClusterSpec
    meeting: Meeting | None

    def backend(self, task: Task) -> TaskBackend:
        """Start a task and wait until it has met the others. Raises what `TaskBackend` raises."""
        asked = self.asked
        told = joined(
            self.engine.adapter,
            self.spec,
            task,
            limit=asked.limit,
            asynchronous=asked.asynchronous,
            threads=asked.settings.threads,
        )
        more: dict[str, Any] = {"limit": asked.start_limit}
        if self.meeting is not None:
            rank = self.spec.tasks.index(task)
            more["environment"] = {**_SHARED, **self.meeting.environment(rank)}
            more["start"] = partial(_inheriting, self.meeting, rank)
        return TaskBackend(asked.backend, task, told, asked.settings, **more)


def _inheriting(meeting: Meeting, rank: int, command: list[str]) -> Popen[bytes]:
    descriptor = meeting.descriptor(rank)
    started = Popen(command, bufsize=0, stdin=PIPE, stdout=PIPE, start_new_session=True, pass_fds=[descriptor])
    meeting.given(rank)
    return started


@contextmanager
def started(asked: Asked, engine: Entry, spec: ClusterSpec) -> Iterator[Starting]:
    """What starts the tasks; it is there until they are ended."""
    meeting = Meeting([0] * len(spec.tasks)) if engine.name == "mpi" else None
    try:
        yield Starting(asked, engine, spec, meeting)
    finally:
        if meeting is not None:
            meeting.close()


def ended(backend: TaskBackend) -> bool:
    """Whether the process of a task is gone."""
    pid = backend.worker.pids.get("worker")
    return pid is None or not Path(f"/proc/{pid}").exists()


def is_stopped(backend: TaskBackend) -> bool:
    """Whether the process of a task is stopped, as by SIGSTOP (Linux)."""
    pid = backend.worker.pids.get("worker")
    try:
        return pid is not None and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


def listening(pid: int) -> list[str]:
    """The addresses that a process listens on (Linux): TCP, by /proc."""
    inodes = set()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(link.readlink()))
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                    found.append(_address(words[1], family))
    return sorted(found)


def _address(text: str, family: socket.AddressFamily) -> str:
    host, port = text.split(":")
    words = [bytes.fromhex(host[k : k + 8])[::-1] for k in range(0, len(host), 8)]
    name = socket.inet_ntop(family, b"".join(words))
    return f"[{name}]:{int(port, 16)}" if family == socket.AF_INET6 else f"{name}:{int(port, 16)}"
