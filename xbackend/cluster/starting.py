"""How the processes of a cluster are started, here and on other hosts, and at which addresses at each start. Each is a
worker whose framework an engine joins with the other tasks'."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any

from xbackend import cores
from xbackend.cluster.hosts import DESCRIPTOR, await_hosts, there, via_socket
from xbackend.cluster.jobspec import JobSpec
from xbackend.cluster.namespace import held, joining
from xbackend.devices import Device
from xbackend.engines.contract import Engine
from xbackend.engines.pmi import Meeting
from xbackend.engines.record import Layout
from xbackend.engines.registry import ENGINES
from xbackend.engines.spec import FIRST_PORT, WORKER, Announced, ClusterSpec, Task, local, split
from xbackend.wording import counted
from xbackend.workers.remote import RemoteBackend

Known = Callable[["TaskBackend"], None]


class TaskBackend(RemoteBackend):
    """The backend of one task. ``joined`` has the arguments of its engine: see `Engine`. ``known`` is called once its
    process runs, before it waits for others.

    Raises what `RemoteBackend` raises, and `ClusterError` where it does not meet the others in time.
    """

    def __init__(self, name: str, task: Task, joined: Mapping[str, Any], known: Known, **how: Any) -> None:
        self.task, self.joined, self.known = task, dict(joined), known
        super().__init__(name, label=str(task), **how)

    def begin(self) -> Iterable[Device]:
        self.known(self)
        devices: list[Device] = self.worker.request("start", self.name, self.settings, self.joined)
        return devices


def joined(engine: str, spec: ClusterSpec, task: Task, layouts: Sequence[Layout], **options: Any) -> dict[str, Any]:
    """The arguments of an engine (``module:class``) for a task, as plain data."""
    return {
        "engine": engine,
        "jobs": {name: list(addresses) for name, addresses in spec.jobs.items()},
        "task": astuple(task),
        "layouts": list(map(astuple, layouts)),
        "options": options,
    }


def on_hosts(hosts: Sequence[str], workers: int, servers: int, port: int = FIRST_PORT) -> ClusterSpec:
    """A cluster on these hosts by turns, servers first, with ports from ``port`` up. Raises `ClusterError`."""
    return ClusterSpec.of([f"{hosts[k % len(hosts)]}:{port + k}" for k in range(workers + servers)], servers)


@dataclass
class Starting:
    """Starts the tasks of one attempt."""

    asked: JobSpec
    engine: type[Engine]
    spec: ClusterSpec
    layouts: Sequence[Layout]
    meeting: Meeting | None = None  # through which the processes find each other, for engines that need it
    folder: Path | None = None  # of sockets that lead to processes on other hosts
    namespace: int | None = None  # id of a process in the network namespace of the tasks

    def backend(self, task: Task, guarded: Callable[[Popen[bytes]], Popen[bytes]], known: Known) -> TaskBackend:
        """Start a task and wait until it has met the others. ``guarded`` is called with the guard of its process,
        ``known`` with the backend once the process runs. Raises what `TaskBackend` raises."""
        asked, meeting = self.asked, self.meeting
        options = {"limit": asked.limit, "start_limit": asked.start_limit, "asynchronous": asked.asynchronous}
        told = joined(ENGINES[self.engine.name], self.spec, task, self.layouts, **options)
        environment = self.engine.environment(len({*map(self.place, self.spec.tasks)}))
        if meeting is not None:
            environment |= meeting.environment(self.spec.tasks.index(task))
            if self.place(task):
                environment["PMI_FD"] = str(DESCRIPTOR)

        def start(command: list[str]) -> Popen[bytes]:
            return guarded(self._start(task, command))

        leaves = () if meeting is None else meeting.memory
        how: dict[str, Any] = {"settings": asked.settings, "limit": asked.start_limit, "turn": self._turn(task)}
        return TaskBackend(asked.backend, task, told, known, environment=environment, start=start, leaves=leaves, **how)

    def place(self, task: Task) -> str:
        """The host of a task; empty for this machine, which has several names."""
        host, _ = split(self.spec.address(task))
        return "" if is_here(host, self.asked.here) else host

    def _turn(self, task: Task) -> int:
        """The position of a task in its host's order of taking cores: workers first, then parameter servers."""
        own = [one for one in self.spec.tasks if self.place(one) == self.place(task)]
        return sorted(own, key=lambda one: (one.job != WORKER, one.index)).index(task)

    def _start(self, task: Task, command: list[str]) -> Popen[bytes]:
        """Start the guard of a task."""
        inherited, rank, meeting = list[int](), self.spec.tasks.index(task), self.meeting
        if host := self.place(task):
            forward = None
            if meeting is not None and self.folder is not None:
                here, far = self.folder / f"pmi-{rank}", f"/tmp/xbackend-pmi-{secrets.token_hex(8)}"
                meeting.listen(str(here))
                command, forward = via_socket(far, command), (far, str(here))
            command = there(host, command, forward)
        elif meeting is not None:
            inherited = [meeting.descriptor(rank)]
        if self.namespace is not None:
            command = joining(self.namespace, command)
        started = Popen(command, bufsize=0, stdin=PIPE, stdout=PIPE, start_new_session=True, pass_fds=inherited)
        if inherited and meeting is not None:
            meeting.given(rank)
        return started


def is_here(host: str, here: str = "") -> bool:
    """Whether a host is this machine: a name of the loopback, or ``here`` with or without its domain."""
    own, other = here.lower(), host.lower()
    short = own.partition(".")[0] == other.partition(".")[0] and not ("." in own and "." in other)
    return host in ("localhost", "::1") or host.startswith("127.") or own == other or short


def all_here(spec: ClusterSpec, here: str) -> bool:
    """Whether all of a cluster is on this machine."""
    return all(is_here(host, here) for host in spec.hosts())


def at_home(spec: ClusterSpec, here: str) -> ClusterSpec:
    """The cluster, moved to the loopback's address if all of it is on this machine: other addresses would lead out of
    the tasks' namespace, or be open to other hosts. Raises `ClusterError`."""
    return spec.placed("127.0.0.1") if all_here(spec, here) else spec


def starts(said: Announced, port: int | None = None) -> Iterator[ClusterSpec]:
    """A cluster for each start, as a launcher announced it. Where it names no ports, each start has others: free ones
    on one host, on several hosts those from ``port`` up."""
    spec, count = said.spec, len(said.spec.tasks)
    if said.ports:
        return itertools.repeat(spec)
    if port is None and all_here(spec, said.host):
        return (local(count, 0) for _ in itertools.count())
    firsts = first_ports(FIRST_PORT if port is None else port, count)
    return (spec.placed(by=first - FIRST_PORT) for first in firsts)


def first_ports(first: int, count: int) -> Iterator[int]:
    """The first port of each start, higher each time, as lost processes may still hold theirs. After the highest port
    the numbers begin again."""
    room = max(1, (1 << 16) - first - count)
    return (first + number * count % room for number in itertools.count())


def bound(said: Announced) -> Iterator[str]:
    """Advice where a launcher bound this process to fewer cores than its host's tasks need."""
    hosts = [split(said.spec.address(task))[0] for task in said.spec.tasks]
    here, usable, all_cores = sum(is_here(host, said.host) for host in hosts), cores.count(), os.cpu_count() or 1
    if usable < min(here, all_cores):
        yield (
            f"{counted(here, 'task')} of this host share {counted(usable, 'core')} of {all_cores}, to which this "
            "process is bound: srun --cpu-bind=none and mpirun --bind-to none bind it to none"
        )


@contextmanager
def started(asked: JobSpec, engine: type[Engine], spec: ClusterSpec, layouts: Sequence[Layout]) -> Iterator[Starting]:
    """The `Starting` of an attempt. It must outlive the tasks."""
    with contextlib.ExitStack() as stack:
        own = Starting(asked, engine, spec, layouts)
        away = [host for host in spec.hosts() if not is_here(host, asked.here)]
        await_hosts(away, asked.start_limit)
        if engine.meeting is not None:
            places = list(map(own.place, spec.tasks))
            own.meeting = engine.meeting(list(map([*dict.fromkeys(places)].index, places)))
            stack.callback(own.meeting.close)
            if away:
                own.folder = Path(stack.enter_context(TemporaryDirectory(prefix="xbackend-cluster-")))
        if engine.exposed and away:
            asked.on_line(f"{engine.exposed}: use a network that you trust")
        elif engine.exposed:
            try:
                own.namespace = stack.enter_context(held())
            except OSError as error:
                asked.on_line(
                    f"{engine.exposed}: a network namespace would keep them to this machine, and this system permits "
                    f"none ({error}); use a network that you trust"
                )
        yield own


def ended(backend: TaskBackend) -> bool:
    """Whether the process of a task, or the ssh that leads to it, has ended. A zombie has ended too."""
    pid = backend.worker.pids.get("worker")
    return not backend.worker.runs or (pid is not None and _state(pid) in ("", "Z", "X"))


def is_stopped_early(guard: Popen[bytes]) -> bool:
    """Whether a process known only by its guard is stopped."""
    try:
        children = Path(f"/proc/{guard.pid}/task/{guard.pid}/children").read_text().split()
    except OSError:
        return False
    return any(_state(int(pid)) in ("T", "t") for pid in children)


def is_stopped(backend: TaskBackend) -> bool:
    """Whether the process of a task is stopped, as by SIGSTOP (Linux)."""
    pid = backend.worker.pids.get("worker")
    return pid is not None and _state(pid) in ("T", "t")


def _state(pid: int) -> str:
    """The letter of a process's state (Linux, proc_pid_stat(5)); empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
