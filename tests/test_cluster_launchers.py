"""``--cluster env``: a job started by Slurm, MPI's launcher or TF_CONFIG, as a user types it."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fault_helpers import Command, left_over

from xbackend.cli import DONE, WRONG, main
from xbackend.cluster import starting
from xbackend.cluster.starting import at_home, is_here
from xbackend.engines.spec import FIRST_PORT, SERVER, WORKER, Announced, ClusterSpec, found, local
from xbackend.workers.remote import ready_environment

pytestmark = [pytest.mark.tier("standard"), pytest.mark.needs("numpy")]

ONE = """
import numpy as np
import xbackend as xb

@xb.job(steps=3)
def ranks(task):
    own = xb.shared(np.float64(0.0), "own")
    total = xb.all_reduce([xb.asarray(np.float64(task.index + 1))], "sum", across=task)[0]
    xb.update(own, own + total)
    return total

@xb.job(steps=3)
def counted(task):
    own = xb.shared(np.float64(0.0), "total", device="/job:ps/task:0")
    xb.update(own, own + 1.0)
    return own
"""
NODE = "node-7"  # resolves to nothing: only the launcher says that this process is on it
# As srun sets them for a job step of two tasks on one node. Each process has its own SLURM_PROCID.
SLURM = {
    **{"SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": NODE, "SLURM_STEP_TASKS_PER_NODE": "2"},
    **{"SLURM_JOB_ID": "7", "SLURM_NNODES": "1"},
}


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.py"
    file.write_text(ONE)
    return file


def both(folder: Path, jobs: Path, job: str, environments: list[dict[str, str]]) -> list[Command]:
    """Run a command in each of these environments at once, as a launcher does, to their ends."""
    places = ("--reports", str(folder / "reports"), "--start-limit", "60")
    arguments = ("cluster", "run", f"{jobs}:{job}", "--cluster", "env", *places)
    commands = [Command(folder / str(k), arguments, own) for k, own in enumerate(environments)]
    started = [command.start() for command in commands]
    try:
        codes = [one.wait(300) for one in started]
    finally:
        left = left_over(commands)
    assert codes == [DONE] * len(codes), [command.errors for command in commands]
    assert left == []
    return commands


def test_the_first_task_of_slurm_starts_all_and_the_others_leave(tmp_path: Path, jobs: Path) -> None:
    first, second = both(tmp_path, jobs, "ranks", [{**SLURM, "SLURM_PROCID": str(k)} for k in range(2)])
    assert "numpy, 2 workers: 3 steps each" in first.output
    assert all(f"/job:worker/task:{k}/own = 9" in first.output for k in range(2)), first.output
    assert second.output.strip() == "/job:worker/task:1 leaves the start to the first worker"


@pytest.mark.tier("exhaustive")
def test_a_tf_config_of_this_host_by_its_name(tmp_path: Path, jobs: Path) -> None:
    free = local(2, 1)
    spec = ClusterSpec({name: tuple(a.replace("127.0.0.1", NODE) for a in own) for name, own in free.jobs.items()})
    told = [{"TF_CONFIG": spec.tf_config(spec.task(job, k))} for job, k in ((WORKER, 0), (WORKER, 1), (SERVER, 0))]
    first, *others = both(tmp_path, jobs, "counted", told)
    assert "/job:ps/task:0/total = 6" in first.output, first.output
    assert ["leaves the start to the first worker" in one.output for one in others] == [True, True]


def test_mpiexec_starts_as_many_as_it_was_asked_for(tmp_path: Path, jobs: Path) -> None:
    """MPICH's own, from the wheel that joins the tasks. Our tasks are joined by other descriptors."""
    mpiexec = ready_environment("numpy").python.with_name("mpiexec")
    command = [sys.executable, "-m", "xbackend", "cluster", "run", f"{jobs}:ranks", "--cluster", "env"]
    done = subprocess.run(
        [str(mpiexec), "-n", "3", *command, "--reports", str(tmp_path / "reports")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == DONE, done.stdout + done.stderr
    assert "numpy, 3 workers: 3 steps each" in done.stdout
    assert all(f"/job:worker/task:{k}/own = 18" in done.stdout for k in range(3)), done.stdout
    assert done.stdout.count("leaves the start to the first worker") == 2


def said(jobs: dict[str, Any], ports: bool) -> Announced:
    spec = ClusterSpec(jobs)
    return Announced(spec, spec.task(WORKER, 0), ports)


def starts(of: Announced, port: int | None = None) -> list[ClusterSpec]:
    """The first two clusters, as they are started."""
    return [at_home(spec, of.host) for spec in itertools.islice(starting.starts(of, port), 2)]


@pytest.mark.parametrize("ports", [True, False], ids=["with ports", "without"])
def test_where_the_tasks_of_each_start_are(ports: bool) -> None:
    several = said({"worker": (f"a:{FIRST_PORT}", f"b:{FIRST_PORT}")}, ports)
    first, second = starts(several)
    assert first == several.spec
    assert second == (first if ports else several.spec.placed(by=2)), "what was lost may hold its own still"
    for names in (("a", "a"), ("a", "localhost"), ("a.example", "a"), ("A", "127.0.0.1")):
        one = said({"worker": (f"{names[0]}:4001", f"{names[1]}:4002")}, ports)
        first, second = starts(one)
        assert first.hosts() == second.hosts() == ("127.0.0.1",), names
        assert (first.jobs["worker"] == ("127.0.0.1:4001", "127.0.0.1:4002")) is ports


@pytest.mark.tier("exhaustive")
def test_the_first_port_may_be_named_where_the_launcher_names_none() -> None:
    several = said({"worker": (f"a:{FIRST_PORT}", f"b:{FIRST_PORT}")}, ports=False)
    assert [spec.jobs["worker"] for spec in starts(several, 5000)] == [("a:5000", "b:5000"), ("a:5002", "b:5002")]
    many = said({"worker": tuple(f"n{k}:{FIRST_PORT}" for k in range(3000))}, ports=False)
    last = next(itertools.islice(starting.starts(many), 99, None))
    assert len(last.tasks) == 3000, "ports do not end after many starts"


def test_other_hosts_are_no_names_of_this_one() -> None:
    for host in ("b", "a.other", "ab", "10.0.0.7"):
        assert not is_here(host, "a.example"), host
    assert not is_here("10.0.0.7", "10.0.0.8") and not is_here("a", "")


def told(**variables: str) -> Any:
    return found(variables)


SLURMS = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_NODELIST": "n1"}


def test_mpiexec_in_an_allocation_of_slurm_says_which_task_it_is() -> None:
    """Its processes inherit Slurm's variables, all those of one process."""
    for rank in range(4):
        one = told(**SLURMS, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="4")
        assert (one.task.index, one.task.count) == (rank, 4)
    assert told(**SLURMS, PMI_RANK="0", PMI_SIZE="4").spec.hosts() == ("n1",), "srun --mpi=pmi2"


def test_an_allocation_of_one_task_is_a_cluster() -> None:
    assert told(**{**SLURMS, "SLURM_NTASKS": "1"}).spec.jobs == {"worker": (f"n1:{FIRST_PORT}",)}


def test_a_cluster_without_workers_is_refused_and_left_by_nobody(
    jobs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = ClusterSpec({"chief": ("n:1",)})
    monkeypatch.setenv("TF_CONFIG", spec.tf_config(spec.task("chief", 0)))
    assert main(["cluster", "run", f"{jobs}:ranks", "--cluster", "env"]) == WRONG
    assert "this cluster has the jobs chief: tasks that compute are of the job worker" in capsys.readouterr().err


def test_a_process_that_is_bound_to_a_core_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xbackend.cores.affinity", lambda: [0])
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    (line,) = starting.bound(said({"worker": ("a:1", "a:2", "b:1")}, ports=True))
    assert line.startswith("2 tasks of this host share 1 core of 8") and "srun --cpu-bind=none" in line
    assert [*starting.bound(said({"worker": ("a:1", "b:1")}, ports=True))] == []


@pytest.mark.tier("exhaustive")
def test_this_host_by_its_name_is_not_reached_by_ssh(tmp_path: Path, jobs: Path) -> None:
    arguments = ("cluster", "run", f"{jobs}:ranks", "--hosts", socket.gethostname(), "--start-limit", "60")
    one = Command(tmp_path / "own", arguments, {"XBACKEND_SSH": "false"})
    try:
        assert one.run() == DONE, one.errors
    finally:
        assert left_over([one]) == []
    assert "numpy, 2 workers: 3 steps each" in one.output


def test_a_cluster_is_placed_elsewhere() -> None:
    spec = ClusterSpec({"ps": ("[::1]:4000",), "worker": ("a:4001",)})
    assert spec.placed(by=3).jobs == {"ps": ("[::1]:4003",), "worker": ("a:4004",)}
    assert spec.placed("127.0.0.1").jobs == {"ps": ("127.0.0.1:4000",), "worker": ("127.0.0.1:4001",)}
