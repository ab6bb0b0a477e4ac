"""Clusters on several hosts, reached by ssh: the same results, and they go on after one was cut off."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_examples import EXAMPLES
from fault_helpers import slowness
from hosts import Hosts, hosts

pytestmark = [pytest.mark.tier("standard"), pytest.mark.needs("hosts")]
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    if os.geteuid():
        pytest.skip("network namespaces with names take root")
    with hosts(tmp_path_factory.mktemp("hosts"), number=1) as made:
        yield made


def started(two: Hosts, folder: Path, *options: str, job: str = "mirrored") -> subprocess.Popen[str]:
    own = [sys.executable, "-m", "xbackend", "cluster", "run", f"{EXAMPLES / 'p10_distributed.py'}:{job}"]
    hosts_ = ["--workers", "2", "--hosts", ",".join(two.addresses), "--reports", str(folder)]
    return subprocess.Popen(
        two.command([*own, *hosts_, *options]),
        # OpenBLAS's variable for another processor's kernels would be in this host's tasks only.
        env={
            **{name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"},
            "XBACKEND_SSH": two.ssh,
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(run: subprocess.Popen[str], limit: float) -> str:
    """Its output. It is ended if it takes longer than ``limit``."""
    try:
        said, _ = run.communicate(timeout=limit)
    finally:
        run.kill()
    return said


def settled(two: Hosts) -> list[int]:
    """The processes that still run on the hosts after ten seconds."""
    end = time.monotonic() + 10
    while (left := two.processes()) and time.monotonic() < end:
        time.sleep(0.1)
    return left


HEAVY = pytest.mark.tier("exhaustive")


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize(
    "backend",
    [
        *("numpy", "jax", "tensorflow --engine multi-worker-mirrored", "tensorflow", "pytensor-c", "pytensor-jax"),
    ],
)
def test_workers_on_two_hosts_come_to_what_they_come_to_on_one(two: Hosts, backend: str, tmp_path: Path) -> None:
    run = started(two, tmp_path, "--backend", *backend.split(), "--steps", "12", "--restarts", "0")
    said = ended(run, 300)
    assert run.returncode == 0, said
    assert "/job:worker/task:1/w: float64[20, 4]" in said
    text = (tmp_path / "mirrored" / "cluster.md").read_text()
    assert "equal to the bit" in text and all(f"`{address}`" in text or address in text for address in two.addresses)
    assert settled(two) == []


@pytest.mark.parametrize("backend", ["numpy", *(pytest.param(name, marks=HEAVY) for name in ("jax", "tensorflow"))])
def test_slurms_first_task_starts_its_own_host_without_ssh(two: Hosts, backend: str, tmp_path: Path) -> None:
    """As ``srun --nodes 2 xbackend cluster run ... --cluster env`` runs it on the first node of the allocation."""
    own = [sys.executable, "-m", "xbackend", "cluster", "run", f"{EXAMPLES / 'p10_distributed.py'}:mirrored"]
    told = {
        **{"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": ",".join(two.addresses)},
        **{"SLURM_STEP_TASKS_PER_NODE": "1(x2)"},
    }
    ssh = f"{two.ssh} -o UserKnownHostsFile={two.known_but(0)}"
    run = subprocess.Popen(
        two.command([*own, "--cluster", "env", "--backend", backend, "--steps", "12", "--reports", str(tmp_path)], 0),
        # The other host, which is reached by ssh, has none of these flags: its code would be another.
        env={k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
        | {**told, "XBACKEND_SSH": ssh, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = ended(run, 300)
    assert run.returncode == 0, said
    assert "/job:worker/task:1/w: float64[20, 4]" in said
    text = (tmp_path / "mirrored" / "cluster.md").read_text()
    assert "equal to the bit" in text and all(address in text for address in two.addresses)
    assert settled(two) == []


def test_a_server_on_one_host_and_workers_on_two(two: Hosts, tmp_path: Path) -> None:
    options = ("--backend", "numpy", "--ps", "1", "--steps", "40", "--asynchronous", "--replay", "--restarts", "0")
    run = started(two, tmp_path, *options, job="served")
    said = ended(run, 300)
    assert run.returncode == 0, said
    assert "replayed to the bit" in said
    assert settled(two) == []


@pytest.mark.parametrize("backend", ["numpy", *(pytest.param(name, marks=HEAVY) for name in ("jax", "tensorflow"))])
def test_a_host_that_is_cut_off_and_connected_again(two: Hosts, backend: str, tmp_path: Path) -> None:
    options = ("--backend", backend, "--steps", "1500", "--every", "100", "--limit", "20", "--start-limit", "120")
    run = started(two, tmp_path, *options)
    assert run.stdout is not None
    line = ""
    while not re.search(r"step (\d\d+) ", line):  # it has taken ten steps
        line = run.stdout.readline()
        assert line or run.poll() is None
    two.cut(1)
    cut = time.monotonic()
    try:
        while "was lost" not in line:
            line = run.stdout.readline()
            assert line or run.poll() is None
        assert "/job:worker/task:1 was lost" in line and f"the connection to {two.addresses[1]} was lost" in line, line
        assert time.monotonic() - cut < 10.0 * slowness()
    finally:
        two.connect(1)
    said = ended(run, 300)
    assert run.returncode == 0, said
    assert "1500 steps" in said
    assert settled(two) == []


@HEAVY
@pytest.mark.parametrize(("engine", "steps"), [("tensorflow", 3000), ("coordinator", 1500)])
def test_an_asynchronous_worker_comes_back_when_its_host_does(
    two: Hosts, engine: str, steps: int, tmp_path: Path
) -> None:
    options = ("--backend", "tensorflow", "--engine", engine, "--ps", "1", "--asynchronous", "--replay")
    options += ("--steps", str(steps), "--limit", "20")
    run = started(two, tmp_path, *options, job="served")
    assert run.stdout is not None
    line = ""
    while not re.search(r"worker/task:0 +step (\d\d+) ", line):  # servers come first: this worker is on the second host
        line = run.stdout.readline()
        assert line or run.poll() is None
    two.cut(1)
    try:
        while "was lost" not in line:
            line = run.stdout.readline()
            assert line or run.poll() is None
        assert "/job:worker/task:0 was lost" in line and "it is started again" in line, line
        time.sleep(8.0)  # longer than ssh's limit
    finally:
        two.connect(1)
    said = ended(run, 300)
    assert run.returncode == 0, said
    assert "/job:worker/task:0 goes on at step" in said and "replayed to the bit" in said
    assert settled(two) == []


def test_a_host_that_is_not_there_is_named(two: Hosts, tmp_path: Path) -> None:
    own = [sys.executable, "-m", "xbackend", "cluster", "run", f"{EXAMPLES / 'p10_distributed.py'}:mirrored"]
    run = subprocess.run(
        two.command([*own, "--hosts", f"{two.net}.77", "--start-limit", "1", "--reports", str(tmp_path)]),
        env={**os.environ, "XBACKEND_SSH": two.ssh, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 2
    assert f"host {two.net}.77 cannot be reached within 1 s" in run.stderr
    assert "has to work without a question" in run.stderr


@HEAVY
def test_what_ranks_leave_that_are_killed_while_they_meet_is_taken_away_on_their_host(
    two: Hosts, tmp_path: Path
) -> None:
    """The launcher itself removes none of MPI's memory. These hosts have one /dev/shm."""
    before = set(Path("/dev/shm").glob("mpich_*"))
    run, end = started(two, tmp_path, "--backend", "numpy", "--restarts", "0"), time.monotonic() + 60
    while not (far := two.workers(1)) and time.monotonic() < end:
        time.sleep(0.005)
    os.kill(far[0], signal.SIGSTOP)  # the other rank waits for it
    while not set(Path("/dev/shm").glob("mpich_*")) - before and time.monotonic() < end:
        time.sleep(0.01)
    assert set(Path("/dev/shm").glob("mpich_*")) - before
    os.kill(two.workers(0)[0], signal.SIGKILL)
    said = ended(run, 60)
    assert run.returncode and "SIGKILL" in said, said
    assert settled(two) == [] and set(Path("/dev/shm").glob("mpich_*")) <= before
