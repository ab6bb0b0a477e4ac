"""``--cluster env``: a job that Slurm, MPI's launcher or TF_CONFIG has started, as a user types it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fault_helpers import Command, left_over

from xbackend.cli import DONE
from xbackend.cli.cluster import _of
from xbackend.cluster.starting import local
from xbackend.engines.spec import FIRST_PORT, SERVER, WORKER, ClusterSpec, Said
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
NODE = "node-7"  # a name that leads nowhere: that this process is on it is what its launcher says
# As srun sets them, of a job step of two tasks on one node; each process has its own SLURM_PROCID.
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
    """A command in each of these environments, as a launcher starts them: together. They have all ended."""
    arguments = ("cluster", "run", f"{jobs}:{job}", "--cluster", "env", "--reports", str(folder / "reports"))
    commands = [Command(folder / str(k), arguments, own) for k, own in enumerate(environments)]
    started = [command.start() for command in commands]
    codes = [one.wait(300) for one in started]
    assert codes == [DONE] * len(codes), [command.errors for command in commands]
    assert left_over(commands) == []
    return commands


def test_the_first_task_of_slurm_starts_all_and_the_others_leave(tmp_path: Path, jobs: Path) -> None:
    first, second = both(tmp_path, jobs, "ranks", [{**SLURM, "SLURM_PROCID": str(k)} for k in range(2)])
    assert "numpy, 2 workers: 3 steps each" in first.output
    assert all(f"/job:worker/task:{k}/own = 9" in first.output for k in range(2)), first.output
    assert second.output.strip() == "/job:worker/task:1 leaves the start to the first worker"


def test_a_tf_config_of_this_host_by_its_name(tmp_path: Path, jobs: Path) -> None:
    free = local(2, 1)
    spec = ClusterSpec({name: tuple(a.replace("127.0.0.1", NODE) for a in own) for name, own in free.jobs.items()})
    told = [{"TF_CONFIG": spec.tf_config(spec.task(job, k))} for job, k in ((WORKER, 0), (WORKER, 1), (SERVER, 0))]
    first, *others = both(tmp_path, jobs, "counted", told)
    assert "/job:ps/task:0/total = 6" in first.output, first.output
    assert ["leaves the start to the first worker" in one.output for one in others] == [True, True]


def test_mpiexec_starts_as_many_as_it_was_asked_for(tmp_path: Path, jobs: Path) -> None:
    """MPICH's own, from the wheel that joins the tasks; our tasks are joined by other descriptors than its own."""
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


def said(jobs: dict[str, Any], ports: bool) -> Said:
    spec = ClusterSpec(jobs)
    return Said(spec, spec.task(WORKER, 0), ports)


@pytest.mark.parametrize("ports", [True, False], ids=["with ports", "without"])
def test_where_the_tasks_of_each_start_are(ports: bool) -> None:
    several = said({"worker": (f"a:{FIRST_PORT}", f"b:{FIRST_PORT}")}, ports)
    first, second = itertools.islice(_of(several), 2)
    assert first == several.spec
    assert second == (first if ports else several.spec.placed(by=2)), "what was lost may hold its own still"
    one = said({"worker": ("a:4001", "a:4002")}, ports)
    first, second = itertools.islice(_of(one), 2)
    assert first.hosts() == second.hosts() == ("127.0.0.1",)
    assert (first.jobs["worker"] == ("127.0.0.1:4001", "127.0.0.1:4002")) is ports


def test_a_cluster_is_placed_elsewhere() -> None:
    spec = ClusterSpec({"ps": ("[::1]:4000",), "worker": ("a:4001",)})
    assert spec.placed(by=3).jobs == {"ps": ("[::1]:4003",), "worker": ("a:4004",)}
    assert spec.placed("127.0.0.1").jobs == {"ps": ("127.0.0.1:4000",), "worker": ("127.0.0.1:4001",)}
    assert json.loads(spec.tf_config(spec.task("ps", 0)))["cluster"]["ps"] == ["[::1]:4000"]
