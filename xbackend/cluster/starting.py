"""How the processes of a cluster are started on this machine, watched and ended."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from xbackend.cluster.hosts import DESCRIPTOR, await_hosts, meeting, there
from xbackend.cluster.namespace import held, joining
from xbackend.cluster.pmi import Meeting
from xbackend.cluster.tasks import TaskBackend, joined
from xbackend.engines.registry import Entry
from xbackend.engines.spec import CHIEF, FIRST_PORT, SERVER, WORKER, ClusterSpec, Task, split
from xbackend.errors import ClusterError

if TYPE_CHECKING:
    from xbackend.cluster.asked import Asked

# One host: nothing is listened on, and what waits is not to take the core of who computes.
_SHARED = {"UCX_TLS": "self,posix"}
_NETWORK = {"UCX_TLS": "self,posix,tcp"}


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


def on_hosts(hosts: Sequence[str], workers: int, servers: int, port: int = FIRST_PORT) -> ClusterSpec:
    """A cluster on these hosts by turns, servers first, with ports from ``port`` up. Raises `ClusterError`."""
    addresses = [f"{hosts[k % len(hosts)]}:{port + k}" for k in range(workers + servers)]
    jobs = {SERVER: tuple(addresses[:servers]), WORKER: tuple(addresses[servers:])}
    return ClusterSpec({name: own for name, own in jobs.items() if own})


def coordinated(spec: ClusterSpec) -> ClusterSpec:
    """The cluster with a coordinator, if it has none: on the host of the first task, at a port that is free on this
    machine, or the next one there. Raises `ClusterError`."""
    if CHIEF in spec.jobs:
        return spec
    first = spec.address(spec.tasks[0])
    host, _ = split(first)
    taken = {address for own in spec.jobs.values() for address in own}
    if not host.startswith("127."):
        port = 1 + max(port for there, port in map(split, taken) if there == host)
        return ClusterSpec({**spec.jobs, CHIEF: (f"{first.rpartition(':')[0]}:{port}",)})
    while (address := local(1, 0, host).jobs[WORKER][0]) in taken:
        pass
    return ClusterSpec({**spec.jobs, CHIEF: (address,)})


@dataclass
class Starting:
    """What starts the tasks of one attempt."""

    asked: Asked
    engine: Entry
    spec: ClusterSpec
    folder: Path | None = None  # for sockets that lead to other hosts
    meeting: Meeting | None = None
    namespace: int | None = None  # a process in the network namespace of the tasks

    def backend(
        self, task: Task, guarded: Callable[[Popen[bytes]], None], known: Callable[[TaskBackend], None]
    ) -> TaskBackend:
        """Start a task, say when its process is ``guarded`` by which other one, make it ``known`` when it is there, and
        wait until it has met the others.

        Raises what `TaskBackend` raises.
        """
        asked = self.asked
        told = joined(
            self.engine.adapter,
            self.spec,
            task,
            limit=asked.limit,
            start_limit=asked.start_limit,
            asynchronous=asked.asynchronous,
        )
        more: dict[str, Any] = {"limit": asked.start_limit, "turn": self._turn(task)}

        def start(command: list[str]) -> Popen[bytes]:
            guard = self._start(task, command)
            guarded(guard)
            return guard

        more["start"] = start
        if self.meeting is not None:
            more["leaves"] = self.meeting.memory
            more["environment"] = {
                **(_NETWORK if self._several else _SHARED),
                **self.meeting.environment(self.spec.tasks.index(task)),
            }
            if self.remote(task):
                more["environment"]["PMI_FD"] = str(DESCRIPTOR)
        return TaskBackend(asked.backend, task, told, asked.settings, known, **more)

    @property
    def _several(self) -> bool:
        return len({*map(self.place, self.spec.tasks)}) > 1

    def place(self, task: Task) -> str:
        """The host of a task, by one name for this machine: the empty one."""
        return split(self.spec.address(task))[0] if self.remote(task) else ""

    def _turn(self, task: Task) -> int:
        """Where a task stands among those of its host that take cores: workers first, then parameter servers."""
        own = [one for one in self.spec.tasks if self.place(one) == self.place(task)]
        return sorted(own, key=lambda one: (one.job != WORKER, one.index)).index(task)

    def remote(self, task: Task) -> bool:
        """Whether a task is on another host, or on one that is to be treated as such."""
        return not is_here(split(self.spec.address(task))[0], self.asked.here)

    def await_host(self, task: Task) -> None:
        """Wait until the host of a task lets one in, where it is another one. Raises `ClusterError`."""
        if self.remote(task):
            await_hosts([split(self.spec.address(task))[0]], self.asked.start_limit)

    def _start(self, task: Task, command: list[str]) -> Popen[bytes]:
        """Start the guard of a task."""
        inherited: list[int] = []
        rank = self.spec.tasks.index(task)
        if self.remote(task):
            forward = None
            if self.meeting is not None and self.folder is not None:
                here, far = self.folder / f"pmi-{rank}", f"/tmp/xbackend-pmi-{secrets.token_hex(8)}"
                self.meeting.listen(rank, str(here))
                command, forward = meeting(far, command), (far, str(here))
            command = there(split(self.spec.address(task))[0], command, forward)
        elif self.meeting is not None:
            inherited = [self.meeting.descriptor(rank)]
        if self.namespace is not None:
            command = joining(self.namespace, command)
        started = Popen(command, bufsize=0, stdin=PIPE, stdout=PIPE, start_new_session=True, pass_fds=inherited)
        if inherited and self.meeting is not None:
            self.meeting.given(rank)
        return started


def is_here(host: str, here: str = "") -> bool:
    """Whether a host is this machine: by a name of its loopback, or by its own, with its domain or without."""
    own, other = here.lower(), host.lower()
    short = own.partition(".")[0] == other.partition(".")[0] and not ("." in own and "." in other)
    return host in ("localhost", "::1") or host.startswith("127.") or own == other or short


def all_here(spec: ClusterSpec, here: str) -> bool:
    """Whether all of a cluster is on this machine."""
    return all(is_here(host, here) for host in spec.hosts())


def at_home(spec: ClusterSpec, here: str) -> ClusterSpec:
    """The cluster, on one address of the loopback where all of it is on this machine: other names and addresses of it
    lead out of the namespace of its tasks, or to what others reach. Raises `ClusterError`."""
    return spec.placed("127.0.0.1") if all_here(spec, here) else spec


@contextmanager
def started(asked: Asked, engine: Entry, spec: ClusterSpec) -> Iterator[Starting]:
    """What starts the tasks; it is there until they are ended."""
    with contextlib.ExitStack() as stack:
        own = Starting(asked, engine, spec)
        away = [host for host in spec.hosts() if not is_here(host, asked.here)]
        await_hosts(away, asked.start_limit)
        if engine.meets:
            places = [own.place(task) for task in spec.tasks]
            numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
            own.meeting = Meeting([numbers[place] for place in places])
            stack.callback(own.meeting.close)
            if away:
                own.folder = Path(stack.enter_context(TemporaryDirectory(prefix="xbackend-cluster-")))
        if engine.exposed and not away:
            own.namespace = _namespace(stack, asked, engine)
        elif engine.exposed:
            asked.on_line(f"{engine.exposed}: use a network that you trust")
        yield own


def _namespace(stack: contextlib.ExitStack, asked: Asked, engine: Entry) -> int | None:
    try:
        return stack.enter_context(held())
    except OSError as error:
        asked.on_line(
            f"{engine.exposed}: a network namespace would keep them to this machine, and this system permits none "
            f"({error}); use a network that you trust"
        )
        return None


def ended(backend: TaskBackend) -> bool:
    """Whether the process of a task is gone, or is one that nobody has asked for its end yet; or what leads to it on
    another host."""
    pid = backend.worker.pids.get("worker")
    return not backend.worker.runs or (pid is not None and _state(pid) in ("", "Z", "X"))


def is_stopped_early(guard: Popen[bytes]) -> bool:
    """Whether a process of which nothing is known but its guard is stopped."""
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
    """A letter of what a process does (Linux, proc_pid_stat(5)); empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
