"""``cluster``: a function of the user's file as one step of every task of a cluster; and which clusters run."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from msgspec.structs import replace

from xbackend.backends import registry
from xbackend.cli import DONE, INCOMPLETE, configured, options, output
from xbackend.cli.console import say, say_lines, table, width
from xbackend.cli.output import Output
from xbackend.cli.users import calling, job
from xbackend.cluster.job import Job
from xbackend.devices import DeviceMap
from xbackend.engines.registry import ENGINES, checked
from xbackend.engines.spec import FIRST_PORT, WORKER, Announced, ClusterSpec, found, local, read
from xbackend.errors import UsageError
from xbackend.wording import counted, join

if TYPE_CHECKING:
    from xbackend.cluster.jobspec import JobSpec
    from xbackend.engines.contract import Engine

_ACTION = Parameter(help="run a job, or show the status of those that run")
_TARGET = Parameter(help="a function of a task, in a file; or of the only job of FILE.py", metavar="FILE.py:FUNCTION")
_BACKEND = options.option(
    options.names,
    "NAME,...",
    f"what computes in every task; of several, one after the other; there is {', '.join(registry.names())}",
    options.listed(lambda _: registry.names()),
)
_WORKERS = options.option(options.count, "N", "how many tasks compute (default: 2)")
_SERVERS = options.option(options.whole(0, 1024), "N", "how many tasks are parameter servers (default: 0)")
_STEPS = options.option(options.whole(1, 10**9), "N", "steps of each worker (default: the job's)")
_DEVICES = options.option(options.count, "N", "CPU devices of each task")
_ASYNCHRONOUS = options.flag("workers do not wait for each other")
_RESTARTS = options.option(options.whole(0, 1000), "N", "how often what is lost is started again")
_LIMIT = options.option(options.duration("seconds"), "SECONDS", "what a step may take before its task is lost")
_START = options.option(options.duration("seconds"), "SECONDS", "what the start and compilation may take")
_EVERY = options.option(options.whole(1, 10**9), "N", "steps from one checkpoint to the next")
_FOLDER = options.option(options.folder, "DIR", "keep checkpoints there, and go on from the newest that lies there")
_CORES = options.option(options.count, "N", "cores of each task, pinned")
_HOSTS = options.option(options.names, "HOST,...", "hosts that tasks run on by turns, by ssh (default: this machine)")
_PORT = options.option(
    options.whole(1, 65_000), "PORT", f"the first port of the tasks, where hosts are named (default: {FIRST_PORT})"
)
_CLUSTER = options.option(
    str,
    "FILE.toml",
    "jobs and addresses of tasks; env: what TF_CONFIG, Slurm or MPI say of it",
)
_ENGINE = options.option(
    options.names,
    "NAME,...",
    "what joins the tasks, where a backend has several, one after the other (default: the backend's first); there is "
    + join(ENGINES),
    options.listed(lambda _: ENGINES),
)
_REPLAY = options.flag("repeat the recorded updates in one process, and compare to the bit")


def _specs(
    cluster: str | None,
    hosts: list[str] | None,
    workers: int | None,
    ps: int | None,
    port: int | None,
    *,
    coordinated: bool,
) -> tuple[Iterator[ClusterSpec], Announced | None]:
    """A cluster for each start, and a launcher's announcement, if one is asked. Raises `ClusterError`, `UsageError`."""
    from xbackend.cluster import starting
    from xbackend.cluster.starting import on_hosts

    if cluster is None:
        if port is not None and not hosts:
            raise UsageError("--port is for tasks on --hosts: on one machine they take ports that are free")
        counts = (2 if workers is None else workers, ps or 0)
        firsts = starting.first_ports(FIRST_PORT if port is None else port, sum(counts) + coordinated)
        return (on_hosts(hosts, *counts, first) if hosts else local(*counts) for first in firsts), None
    said = found() if cluster == "env" else None
    if said is None and cluster == "env":
        raise UsageError("--cluster env: neither TF_CONFIG nor variables of Slurm or MPI say of which cluster this is")
    spec = read(Path(cluster)) if said is None else said.spec
    spec.check_jobs(coordinated)
    asked = {"--workers": workers, "--ps": ps, "--hosts": hosts}
    if said is None or said.ports:
        asked["--port"] = port
    if beside := [name for name, value in asked.items() if value is not None]:
        raise UsageError(f"--cluster says which tasks there are and where: leave out {join(beside)}")
    return (itertools.repeat(spec) if said is None else starting.starts(said, port)), said


def _starts(said: Announced | None) -> bool:
    """Whether this process starts the tasks, as under a launcher the first worker does; prints it, or its cores."""
    from xbackend.cluster import starting

    if said is None:
        return True
    if (said.task.job, said.task.index) != (WORKER, 0):
        say(f"{said.task} leaves the start to the first worker")
        return False
    say_lines(starting.bound(said))
    return True


def cluster(
    action: Annotated[Literal["run", "status"], _ACTION],
    target: Annotated[str, _TARGET] = "",
    /,
    *,
    backend: Annotated[list[str] | None, _BACKEND] = None,
    engine: Annotated[list[str] | None, _ENGINE] = None,
    workers: Annotated[int | None, _WORKERS] = None,
    ps: Annotated[int | None, _SERVERS] = None,
    steps: Annotated[int | None, _STEPS] = None,
    devices: Annotated[int, _DEVICES] = 1,
    devices_map: options.DevicesMap = None,
    asynchronous: Annotated[bool, _ASYNCHRONOUS] = False,
    replay: Annotated[bool, _REPLAY] = False,
    cluster: Annotated[str | None, _CLUSTER] = None,
    hosts: Annotated[list[str] | None, _HOSTS] = None,
    port: Annotated[int | None, _PORT] = None,
    restarts: Annotated[int, _RESTARTS] = 3,
    limit: Annotated[float, _LIMIT] = 60.0,
    start_limit: Annotated[float, _START] = 600.0,
    checkpoints: Annotated[Path | None, _FOLDER] = None,
    every: Annotated[int, _EVERY] = 50,
    allow_nan: options.AllowNaN = False,
    cores_per_device: Annotated[int | None, _CORES] = None,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    name: options.Name = None,
    reports: options.Reports = Path("reports"),
    printed: options.Printed = options.PRINTED,
) -> int | Output:
    """Run a job on a cluster of processes and write a report, or show the clusters that run."""
    if action == "status":
        return _status()
    from xbackend.backends.contract import Settings  # slow imports would keep a shell waiting
    from xbackend.cluster.jobspec import JobSpec
    from xbackend.cluster.starting import at_home

    chosen = _job(target)
    pairs = checked(backend or ["numpy"], engine or [])
    specs, said = _specs(cluster, hosts, workers, ps, port, coordinated=any(one.coordinated for _, one in pairs))
    if not _starts(said):
        return DONE
    options.check_places(folder := reports / (name or chosen.name), checkpoints)
    here = socket.gethostname() if said is None else said.host
    asked = JobSpec(
        job=chosen,
        backend="",
        cluster=lambda: at_home(next(specs), here),
        steps=steps or chosen.steps,
        settings=Settings(virtual_devices=devices, cores_per_device=cores_per_device),
        devices=devices_map or DeviceMap(),
        asynchronous=asynchronous,
        restarts=restarts, limit=limit, start_limit=start_limit, every=every, folder=checkpoints, here=here,
        guard=calling, on_line=say,
    )  # fmt: skip
    return _ran(asked, pairs, folder, replay=replay, allow_nan=allow_nan)


def _job(target: str) -> Job:
    if not target:
        raise UsageError("name what to run: xbackend cluster run FILE.py:FUNCTION")
    return job(target)


def _status() -> Output:
    from xbackend.cluster import status

    rows = status.rows()
    table(list(status.HEADERS), rows)
    tasks = [output.ClusterTask(**dict(zip(status.HEADERS, row, strict=True))) for row in rows]
    return output.Cluster(
        exit_code=DONE, answer=f"{counted(len(tasks), 'process', 'processes')} of clusters", tasks=tasks
    )


def _ran(asked: JobSpec, pairs: Sequence[tuple[str, type[Engine]]], folder: Path, **how: bool) -> Output:
    """Run the job, print the outcomes, and write the report."""
    from xbackend.analysis.outcomes import clustered
    from xbackend.cluster.job_results import words
    from xbackend.measure import clusters
    from xbackend.report import write
    from xbackend.report.said.cluster import said
    from xbackend.report.written.terminal import outcomes

    done = clusters.jobs(asked, pairs, on_end=lambda one: say_lines(words(one)), **how)
    done = replace(done, configured=dict(configured.taken))
    told = said(done)
    say_lines(outcomes(told, width()))
    say(f"report: {(file := write(done, folder))}")
    wrong = told.ended.apart or [one for one in done.runs if one.replayed is False]
    return output.Cluster(
        exit_code=INCOMPLETE if told.ended.failures or wrong else DONE, answer=told.answer, files=[str(file)],
        rows=[*map(clustered, done.runs)], notes=told.ended.failures,
    )  # fmt: skip
