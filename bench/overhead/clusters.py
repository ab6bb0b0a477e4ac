"""Programs of several processes measured: ours by `xbackend.cluster`, and those that users of the engines write by
hand, each process with a core of its own where there are enough."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from overhead import cluster_jobs
from xbackend import cores
from xbackend.backends import threads
from xbackend.backends.contract import Settings
from xbackend.cluster import running
from xbackend.cluster.job_results import JobResults
from xbackend.cluster.jobspec import JobSpec
from xbackend.engines.pmi import Meeting
from xbackend.engines.spec import SERVER, WORKER, local
from xbackend.errors import ClusterError
from xbackend.workers.remote import ready_environment

CHIEF = "chief"
PROGRAMS = Path(__file__).parent / "handwritten" / "cluster"
WARM = 2 * cluster_jobs.EPOCH  # steps that compile, and are not counted
LIMIT = 300.0  # seconds of a run


@dataclass(frozen=True)
class Case:
    """A program of `cluster_jobs` on a backend, with so many tasks, joined by an engine or by the backend's first;
    ``steps`` are the counted ones."""

    backend: str
    program: str
    workers: int
    servers: int
    steps: int
    dtype: str = "float64"
    engine: str = ""

    def weights(self, *, in_turn: bool = True) -> dict[str, np.ndarray]:
        """The weights that one process computes."""
        steps = self.steps + WARM
        return cluster_jobs.in_one_process(self.program, self.workers, steps, self.dtype, in_turn=in_turn)


@dataclass(frozen=True)
class Run:
    """A run of either side: the seconds of each worker's steps after the first `WARM`, the seconds from the start of
    its processes to the end of its first step, and the weights by name. ``build``: the part of ``start`` after all
    processes had met. ``copies``: the weights of each worker. ``moved``: bytes, pulled and pushed."""

    seconds: list[list[float]]
    start: float
    weights: Mapping[str, np.ndarray]
    build: float = 0.0
    copies: Sequence[Mapping[str, np.ndarray]] = ()
    moved: Mapping[str, int] = field(default_factory=dict)


def ours(case: Case, *, asynchronous: bool | None = None, pinned: bool = True) -> Run:
    """A job of ours; by default, tasks with servers are asynchronous. Raises `ClusterError` and what backends raise."""
    asked = JobSpec(
        job=cluster_jobs.job(case.program, case.dtype),
        backend=case.backend,
        cluster=lambda: local(case.workers, case.servers),
        steps=case.steps + WARM,
        settings=Settings(cores_per_device=1) if pinned else Settings(threads=1),
        asynchronous=bool(case.servers) if asynchronous is None else asynchronous,
        restarts=0,
        engine=case.engine,
        limit=60.0,
        start_limit=LIMIT,
    )
    return of(running.run(asked))


def of(ran: JobResults) -> Run:
    """The measured part of a job."""
    by_task: dict[str, dict[str, np.ndarray]] = {}
    for place, array in ran.variables.items():
        task, _, name = place.rpartition("/")
        if not name.endswith("_velocity"):
            by_task.setdefault(task, {})[name] = array
    copies = list(by_task.values())
    seconds = [own[WARM:] for _, own in sorted(ran.seconds.items())]
    return Run(seconds, ran.start + ran.build, copies[0], ran.build, copies, ran.moved)


def by_hand(file: str, case: Case, *, chief: bool = False, slopes: str = "") -> Run:
    """A program of `handwritten.cluster` in processes of its own, with the interpreter of the backend's environment,
    told its ``slopes``, as of `told.Told`.

    Raises `ClusterError` where a process of it fails, or where it takes longer than `LIMIT`.
    """
    jobs = _jobs(case, chief)
    tasks = [(name, index) for name in jobs for index in range(len(jobs[name]))]
    answering = [(CHIEF, 0)] if chief else [task for task in tasks if task[0] == WORKER or "mpi" in file]
    with TemporaryDirectory(prefix="xbackend_by_hand_") as folder, _meeting(file, len(tasks)) as meeting:
        told: dict[str, Any] = {"program": case.program, "jobs": jobs, "steps": case.steps + WARM, "limit": 60.0}
        told |= {"batch": cluster_jobs.BATCH, **({"slopes": slopes} if slopes else {})}
        told["data"] = _data(Path(folder), case.dtype) if case.program != "add_rank" else ""
        begun, processes = time.time(), {}
        try:
            for rank, (name, index) in enumerate(tasks):
                turn = index if name == WORKER else case.workers
                # Pinned to one core TensorFlow's coordinator waits for ever.
                command = [] if chief else ["taskset", "--cpu-list", ",".join(map(str, cores.pinned(1, 1, turn)))]
                command += [str(ready_environment(case.backend).python), str(PROGRAMS / file)]
                own = {**told, "job": name, "index": index, "answer": f"{folder}/{name}{index}.npz"}
                processes[name, index] = _started([*command, json.dumps(own)], own["answer"], meeting, rank)
            _wait({task: processes[task] for task in answering}, Path(folder))
        finally:
            for process in processes.values():
                _end(process)
        found = {task: dict(np.load(f"{folder}/{task[0]}{task[1]}.npz")) for task in answering}
    weights = [
        {name.removeprefix("weight_"): value for name, value in one.items() if name.startswith("weight_")}
        for one in found.values()
    ]
    stepped = [one for task, one in found.items() if task[0] != SERVER]
    warm = WARM // cluster_jobs.EPOCH if chief else WARM  # the coordinator's seconds are those of epochs
    start = max(float(one["first"]) + float(one["seconds"][0]) for one in stepped) - begun
    return Run([list(map(float, one["seconds"][warm:])) for one in stepped], start, weights[0], copies=weights)


def _jobs(case: Case, chief: bool) -> dict[str, list[str]]:
    """The addresses of all tasks, servers first."""
    free = local(case.workers, case.servers + chief).jobs
    servers = free.get(SERVER, ())
    jobs = {SERVER: servers[: case.servers], WORKER: free[WORKER], CHIEF: servers[case.servers :]}
    return {name: list(addresses) for name, addresses in jobs.items() if addresses}


@contextmanager
def _meeting(file: str, count: int) -> Iterator[Meeting | None]:
    """How MPI's processes meet: as `mpiexec` does it."""
    if "mpi" not in file:
        yield None
        return
    meeting = Meeting([0] * count)
    try:
        yield meeting
    finally:
        meeting.close()


def _data(folder: Path, dtype: str) -> str:
    x, labels = cluster_jobs.data(dtype)
    np.savez(folder / "data.npz", x=x, labels=labels)
    return str(folder / "data.npz")


def _started(command: list[str], answer: str, meeting: Meeting | None, rank: int) -> subprocess.Popen[bytes]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TF_CONFIG"))},
        **{name: value for name, value in threads.environment(1).items() if value is not None},
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
    }
    descriptors: list[int] = []
    if meeting is not None:
        environment |= {**meeting.environment(rank), "UCX_TLS": "self,posix"}
        descriptors.append(meeting.descriptor(rank))
    with Path(answer).with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=descriptors,
        )
    if meeting is not None:
        meeting.given(rank)
    return process


def _wait(processes: Mapping[tuple[str, int], subprocess.Popen[bytes]], folder: Path) -> None:
    end, left = time.monotonic() + LIMIT, dict(processes)
    while left:
        for (job, index), process in list(left.items()):
            code = process.poll()
            if code == 0:
                del left[job, index]
            elif code is not None or time.monotonic() > end:
                said = (folder / f"{job}{index}.log").read_text(errors="replace").strip()[-1500:]
                why = f"ended with {code}" if code is not None else f"was not done after {LIMIT:g} s"
                raise ClusterError(f"by hand, {job} {index} {why}: {said}")
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def in_turn(sides: list[Callable[[], Run]], repeats: int) -> list[list[Run]]:
    """So many runs of each side, one of each in turn; every other turn goes backwards."""
    runs: list[list[Run]] = [[] for _ in sides]
    order = list(range(len(sides)))
    for number in range(repeats):
        for k in order if number % 2 == 0 else reversed(order):
            runs[k].append(sides[k]())
    return runs
