"""A cluster: jobs, their tasks, the address of each task, and which task this process is.

Read from TOML, or from a launcher's environment variables: ``TF_CONFIG`` (TensorFlow,
https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable), Slurm's
(https://slurm.schedmd.com/srun.html), Hydra's ``PMI_RANK``, or Open MPI's ``OMPI_COMM_WORLD_RANK``.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import math
import os
import re
import socket
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbackend.errors import ClusterError
from xbackend.wording import join

WORKER, SERVER = "worker", "ps"
CHIEF = "chief"  # the job of a coordinator, which computes nothing itself
_JOB = re.compile(r"[a-z][a-z0-9_]{0,31}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*")
_MOST = 100_000  # tasks of a job
FIRST_PORT = 29_400  # if the launcher names no ports

# For each launcher, the variables of this task's number and of the number of tasks.
_RANKS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))


@dataclass(frozen=True, slots=True)
class Task:
    """One process of a cluster: its job, its number in the job, and the job's number of tasks."""

    job: str
    index: int
    count: int

    def __str__(self) -> str:
        return f"/job:{self.job}/task:{self.index}"

    def share(self, rows: int) -> range:
        """This task's share of ``rows``. A remainder goes to the first tasks, one row each."""
        least, more = divmod(rows, self.count)
        begin = self.index * least + min(self.index, more)
        return range(begin, begin + least + (self.index < more))


@dataclass(frozen=True)
class ClusterSpec:
    """The jobs of a cluster by name, each with the addresses (``host:port``) of its tasks.

    Raises `ClusterError` for a job without tasks, an invalid name, host or port, and an address of two tasks.
    """

    jobs: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        jobs = {name: tuple(addresses) for name, addresses in self.jobs.items()}
        object.__setattr__(self, "jobs", jobs)
        taken: dict[str, Task] = {}
        for name, addresses in jobs.items():
            if not isinstance(name, str) or not _JOB.fullmatch(name):
                raise ClusterError(f"job {name!r:.40} is no name of small letters, digits and _, a letter first")
            if not addresses or len(addresses) > _MOST:
                raise ClusterError(f"job {name} has {len(addresses)} tasks: it needs one, and at most {_MOST}")
            for index, address in enumerate(addresses):
                split(address)
                task = Task(name, index, len(addresses))
                if address in taken:
                    raise ClusterError(
                        f"{task} and {taken[address]} have the same address {address}: give each its own"
                    )
                taken[address] = task
        if not jobs:
            raise ClusterError("a cluster has jobs: write {'worker': ['127.0.0.1:29400', ...]}")

    def check_jobs(self, coordinated: bool = False) -> None:
        """Raises `ClusterError` if there are no workers, or a job other than workers and parameter servers. One
        coordinator is allowed if the cluster is ``coordinated``."""
        if WORKER not in self.jobs or not {*self.jobs} - {CHIEF} <= {WORKER, SERVER}:
            raise ClusterError(
                f"this cluster has the jobs {join(self.jobs)}: tasks that compute are of the job {WORKER}, parameter "
                f"servers of the job {SERVER}"
            )
        if CHIEF in self.jobs and (not coordinated or len(self.jobs[CHIEF]) > 1):
            raise ClusterError(
                f"this cluster has {len(self.jobs[CHIEF])} of the job {CHIEF}: one there is of --engine coordinator, "
                f"which computes nothing itself; tasks that compute are of the job {WORKER}"
            )

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Every task, by job, parameter servers first: the order of MPI's ranks."""
        jobs = sorted(self.jobs.items(), key=lambda one: one[0] != SERVER)
        return tuple(Task(name, i, len(own)) for name, own in jobs for i in range(len(own)))

    def address(self, task: Task) -> str:
        """The address of a task. Raises `ClusterError` for a task of another cluster."""
        if task not in self.tasks:
            raise ClusterError(f"{task} of {task.count} is not of this cluster, which has {join(map(str, self.tasks))}")
        return self.jobs[task.job][task.index]

    def hosts(self) -> tuple[str, ...]:
        """Each host once, in the order of the tasks."""
        return tuple(dict.fromkeys(split(self.jobs[task.job][task.index])[0] for task in self.tasks))

    def task(self, job: str, index: int) -> Task:
        """A task by its job and number. Raises `ClusterError`."""
        own = self.jobs.get(job, ())
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(own):
            jobs = join([f"{name} of {len(addresses)}" for name, addresses in self.jobs.items()])
            raise ClusterError(f"there is no task {index!r:.20} of job {job!r:.40}: the cluster has {jobs}")
        return Task(job, index, len(own))

    def tf_config(self, task: Task) -> str:
        """The value of ``TF_CONFIG`` for a task. Raises `ClusterError` for a task of another cluster."""
        self.address(task)
        return json.dumps({"cluster": self.jobs, "task": {"type": task.job, "index": task.index}})

    def placed(self, host: str = "", by: int = 0) -> ClusterSpec:
        """The same tasks, all on ``host`` if given, with ports higher ``by`` so much. Raises `ClusterError`."""

        def address(text: str) -> str:
            own, _, port = text.rpartition(":")
            return f"{host or own}:{int(port) + by}"

        return ClusterSpec({name: tuple(map(address, own)) for name, own in self.jobs.items()})

    @classmethod
    def of(cls, addresses: Sequence[str], servers: int = 0) -> ClusterSpec:
        """A cluster at these addresses. The first ``servers`` are the parameter servers', the rest the workers'."""
        jobs = {SERVER: tuple(addresses[:servers]), WORKER: tuple(addresses[servers:])}
        return cls({name: own for name, own in jobs.items() if own})


@dataclass(frozen=True, slots=True)
class Announced:
    """A launcher's announcement to a process: the cluster, the task of the process, and ``ports``: the launcher named
    them; else they begin at `FIRST_PORT`."""

    spec: ClusterSpec
    task: Task
    ports: bool

    @property
    def host(self) -> str:
        """The host of this process, as the cluster names it."""
        return split(self.spec.address(self.task))[0]


def local(workers: int, servers: int, host: str = "127.0.0.1") -> ClusterSpec:
    """A cluster on this machine, at free ports. Raises `ClusterError`."""
    with ExitStack() as stack:
        addresses = []
        for _ in range(workers + servers):
            own = stack.enter_context(socket.socket(socket.AF_INET))
            try:
                own.bind((host, 0))
            except OSError as error:
                raise ClusterError(f"there is no free port on {host}: {error}") from None
            addresses.append(f"{host}:{own.getsockname()[1]}")
    return ClusterSpec.of(addresses, servers)


def split(address: Any) -> tuple[str, int]:
    """The host and port of an address. An IPv6 host needs brackets. Raises `ClusterError`."""
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16) or not _is_host(bare, host != bare):
        raise ClusterError(f"{address!r:.80} is no address of a task: write host:port, as in 127.0.0.1:29400")
    return bare, int(port)


def _is_host(host: str, bracketed: bool) -> bool:
    try:
        return (ipaddress.ip_address(host).version == 6) is bracketed
    except ValueError:
        return not bracketed and bool(_HOST.fullmatch(host)) and len(host) < 254


def read(path: Path) -> ClusterSpec:
    """A cluster from TOML: a table ``jobs`` of lists of addresses. Raises `ClusterError`."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ClusterError(f"the cluster of {path} cannot be read: {error}") from None
    jobs = content.get("jobs")
    if not isinstance(jobs, dict) or not all(isinstance(own, list) for own in jobs.values()):
        raise ClusterError(f'{path} has no table jobs of lists: write [jobs] and worker = ["127.0.0.1:29400"]')
    return ClusterSpec(jobs)


def found(environment: Mapping[str, str] = os.environ) -> Announced | None:
    """The cluster and task that a launcher announces to this process; `None` without a launcher.

    Raises `ClusterError` for variables that contradict each other or cannot be read.
    """
    if (said := _of_tensorflow(environment)) is not None:
        return said
    slurm, mpi = _of_slurm(environment), _of_mpi(environment)
    # Within a Slurm allocation mpiexec's processes inherit Slurm's variables, which describe mpiexec itself.
    return mpi if slurm is None or (mpi is not None and mpi.task != slurm.task) else slurm


def _of_tensorflow(environment: Mapping[str, str]) -> Announced | None:
    text = environment.get("TF_CONFIG")
    if not text:
        return None
    try:
        content = json.loads(text)
        jobs, own = content["cluster"], content["task"]
        spec = ClusterSpec(jobs)
        return Announced(spec, spec.task(own["type"], own["index"]), ports=True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ClusterError):
            raise
        raise ClusterError(f"TF_CONFIG is not what TensorFlow writes ({type(error).__name__}: {error})") from None


def _of_slurm(environment: Mapping[str, str]) -> Announced | None:
    if "SLURM_PROCID" not in environment or not environment.get("SLURM_NTASKS"):
        return None
    count, index = _number(environment, "SLURM_NTASKS"), _number(environment, "SLURM_PROCID")
    nodes = expanded(environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", ""))
    each = _tasks_of_nodes(environment.get("SLURM_STEP_TASKS_PER_NODE") or f"{-(-count // max(1, len(nodes)))}", nodes)
    places = [(node, k) for node, own in zip(nodes, each, strict=True) for k in range(own)][:count]
    if len(places) < count:
        raise ClusterError(f"Slurm has {count} tasks, and its list of nodes has room for {len(places)}")
    spec = ClusterSpec({WORKER: tuple(f"{node}:{FIRST_PORT + k}" for node, k in places)})
    return Announced(spec, spec.task(WORKER, index), ports=False)


def _of_mpi(environment: Mapping[str, str]) -> Announced | None:
    """MPI's variables give the number of tasks, but no hosts: all run on the first one's host."""
    for rank, size in _RANKS:
        if rank in environment and size in environment:
            count, index = _number(environment, size), _number(environment, rank)
            if count > (1 << 16) - FIRST_PORT:
                raise ClusterError(f"{size} says {count} tasks, which is more than there are ports")
            spec = ClusterSpec({WORKER: tuple(f"localhost:{FIRST_PORT + i}" for i in range(count))})
            return Announced(spec, spec.task(WORKER, index), ports=False)
    return None


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ClusterError(f"{name} is {text!r:.40}, which is no number of tasks")
    return int(text)


def expanded(nodes: str) -> list[str]:
    """Expand Slurm's list of hosts: ``n[01-03,7],login`` is n01, n02, n03, n7, login. Of several brackets the last
    varies fastest: ``r[1-2]n[1-2]`` is r1n1, r1n2, r2n1, r2n2.

    Raises `ClusterError`.
    """
    parts = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodes)
    if ",".join(parts) != nodes:
        raise ClusterError(f"{nodes!r:.80} is no list of hosts as Slurm writes it")
    return [host for part in parts for host in _hosts_of(part)]


def _hosts_of(part: str) -> list[str]:
    pieces = re.split(r"\[([0-9,-]+)\]", part)
    choices = [_numbers_of(piece, part) if place % 2 else [piece] for place, piece in enumerate(pieces)]
    if math.prod(map(len, choices)) > _MOST:
        raise ClusterError(f"{part!r:.80} is no list of hosts as Slurm writes it: there are more than {_MOST}")
    hosts = ["".join(words) for words in itertools.product(*choices)]
    if not all(map(_HOST.fullmatch, hosts)):
        raise ClusterError(f"{part!r:.80} is no host as Slurm writes it")
    return hosts


def _numbers_of(text: str, part: str) -> list[str]:
    """Expand the numbers in brackets: ``01-03,7`` is 01, 02, 03, 7."""
    numbers: list[str] = []
    for one in text.split(","):
        ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", one)
        first, last = (ends[1], ends[2] or ends[1]) if ends else ("1", "0")
        if int(last) - int(first) not in range(_MOST):
            raise ClusterError(f"{part!r:.80} is no list of hosts as Slurm writes it: {one!r:.40}")
        numbers += [f"{k:0{len(first)}d}" for k in range(int(first), int(last) + 1)]
    return numbers


def _tasks_of_nodes(text: str, nodes: Sequence[str]) -> list[int]:
    """Expand Slurm's tasks per node: ``2(x3),1`` is 2, 2, 2, 1. A single number holds for every node."""
    each: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part.strip())
        if match is None:
            raise ClusterError(f"{text!r:.40} is no list of tasks of nodes as Slurm writes it")
        each += [int(match[1])] * int(match[2] or 1)
    if len(each) == 1:
        each *= len(nodes)
    if len(each) != len(nodes):
        raise ClusterError(f"Slurm names {len(nodes)} nodes, and how many tasks {len(each)} of them have")
    return each
