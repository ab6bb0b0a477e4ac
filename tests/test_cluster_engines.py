"""Engines of a backend beside its first: chosen by name, with their extra tasks, a row for each."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster_examples as examples
import numpy as np
import pytest

import xbackend
import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.cli import DONE, WRONG, main
from xbackend.cluster import replaying, running, starting
from xbackend.cluster.job import Job
from xbackend.cluster.starting import on_hosts
from xbackend.engines.alone import Alone
from xbackend.engines.record import Layout
from xbackend.engines.registry import ENGINES, checked, of
from xbackend.engines.spec import ClusterSpec, Task, found, local, split
from xbackend.engines.tensorflow import meeting
from xbackend.errors import ClusterError, ComputationError
from xbackend.results.clustered import Jobs
from xbackend.results.schema import read

COMPLETED = of("tensorflow", "coordinator").completed
HEAVY = pytest.mark.tier("exhaustive")
P7, P10 = examples.EXAMPLES / "p7_between_graph.py", examples.EXAMPLES / "p10_distributed.py"


def test_every_engine_joins_a_backend_and_every_backend_has_one() -> None:
    joined = [engine for entry in registry.REGISTRY.values() for engine in entry.engines]
    assert {*joined} == {*ENGINES} and all(entry.engines for entry in registry.REGISTRY.values())
    for entry in registry.REGISTRY.values():
        for name in entry.engines:
            engine = of(entry.name, name)
            assert (engine.name, f"{engine.__module__}:{engine.__qualname__}") == (
                name,
                ENGINES[name],
            ) and engine.summary


def test_the_launcher_imports_no_framework_for_an_engine() -> None:
    """The launcher asks only an engine's class. All else is in the tasks' processes."""
    asked = "[of(backend, name) for backend, entry in registry.REGISTRY.items() for name in entry.engines]"
    code = f"import sys; from xbackend.backends import registry; from xbackend.engines.registry import of; {asked}"
    found = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert not {"tensorflow", "jax", "mpi4py"} & {*found.stdout.split()}
    assert "xbackend.engines.tensorflow.coordinator" in found.stdout.split()


def test_no_engine_is_named_outside_of_its_folder_and_the_registries() -> None:
    """An engine is added by a module, a line of `engines/registry.py`, and its name with the backends."""
    rooms = [Path(xbackend.__file__).parent / room for room in ("cluster", "engines")]
    sources = [path for room in rooms for path in room.rglob("*.py") if path.name != "registry.py"]
    classes = {kind.rpartition(":")[2]: kind.partition(":")[0] for kind in ENGINES.values()}
    for path in sources:
        own = f"xbackend.{path.relative_to(rooms[0].parent).with_suffix('').as_posix().replace('/', '.')}"
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not [kind for kind in names & {*classes} if classes[kind] != own], path


def test_each_backend_is_asked_for_with_each_engine() -> None:
    pairs = checked(["tensorflow", "tensorflow-xla"], ["tensorflow", "multi-worker-mirrored"])
    assert [(backend, engine.name) for backend, engine in pairs] == [
        ("tensorflow", "tensorflow"),
        ("tensorflow", "multi-worker-mirrored"),
        ("tensorflow-xla", "tensorflow"),
        ("tensorflow-xla", "multi-worker-mirrored"),
    ]
    assert [engine.name for _, engine in checked(["numpy", "jax"], [])] == ["mpi", "jax"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "ring"], "there is no engine 'ring': there are tensorflow, multi-worker-mirrored, coordinator"),
        (["--backend", "jax", "--engine", "coordinator"], "backend jax is not joined by 'coordinator', but by jax"),
        (
            ["--backend", "tensorflow", "--engine", "multi-worker-mirrored", "--ps", "1"],
            "keeps a copy of every variable in each worker; take --engine tensorflow or --engine coordinator",
        ),
        (
            ["--backend", "tensorflow", "--engine", "coordinator", "--ps", "1"],
            "add --asynchronous, or take --engine tensorflow for tasks in step",
        ),
    ],
)
def test_what_an_engine_does_not_join_or_do_is_said_in_a_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "run", f"{P10}:mirrored", "--steps", "2", *words]) == WRONG
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


# --- the coordinator's own task -----------------------------------------------------------------------------------


class Waiting(Alone):
    """An engine whose server takes one more update between any two looks."""

    def version(self, layout: Layout) -> int:
        self.seen: int = getattr(self, "seen", 2) + 1
        return self.seen


def test_an_awaited_event_is_described_as_it_was_seen_when_the_wait_was_over(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ClusterSpec.of(["localhost:1", "localhost:2"], 1)
    told = starting.joined("", spec, Task("worker", 0, 1), [Layout(0, 1, 1, ())], limit=0.0, asynchronous=False)
    engine = Waiting(told, Settings())
    with pytest.raises(ClusterError, match=r"waited 0 s .* for its turn of /job:ps/task:0: it has 3 of 4"):
        engine.reach(engine.layouts[0], 4, "its turn")
    looks = iter(["Connection refused", ""])
    monkeypatch.setattr(meeting, "why_not_there", lambda spec, task: next(looks))
    with pytest.raises(ClusterError, match=r"which is not at localhost:1: Connection refused$"):
        meeting.await_task(engine, Task("ps", 0, 1))


def test_a_coordinator_takes_a_port_that_no_task_has() -> None:
    for _ in range(20):
        spec = COMPLETED(local(2, 1))
        addresses = [address for own in spec.jobs.values() for address in own]
        assert len({*addresses}) == 4 and split(spec.jobs["chief"][0])[0] == "127.0.0.1"
    assert COMPLETED(on_hosts(["a", "b"], 2, 1)).jobs["chief"] == ("a:29403",)
    assert COMPLETED(ClusterSpec({"worker": ("[::2]:5", "c:9")})).jobs["chief"] == ("[::2]:6",)


def test_a_coordinator_that_is_named_stays_where_it_is() -> None:
    spec = ClusterSpec({"chief": ("c:1",), "worker": ("a:2",), "ps": ("b:3",)})
    assert COMPLETED(spec) is spec
    spec.check_jobs(coordinated=True)
    with pytest.raises(ClusterError, match="one there is of --engine coordinator, which computes nothing itself"):
        spec.check_jobs()
    with pytest.raises(ClusterError, match="this cluster has 2 of the job chief"):
        ClusterSpec({"chief": ("c:1", "c:2"), "worker": ("a:2",)}).check_jobs(coordinated=True)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch


@pytest.mark.tier("exhaustive")
def test_a_cluster_of_tf_config_has_its_coordinator(
    environment: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As TensorFlow's guide writes it for `ParameterServerStrategy`."""
    spec = COMPLETED(local(2, 1))
    command = ["cluster", "run", f"{P7}:add_rank", "--backend", "tensorflow", "--engine", "coordinator"]
    command += [
        "--cores-per-device",
        "1",
        "--asynchronous",
        "--cluster",
        "env",
        "--steps",
        "6",
        "--reports",
        str(tmp_path),
    ]
    environment.setenv("TF_CONFIG", spec.tf_config(spec.task("chief", 0)))
    said = found()
    assert said is not None and said.spec == spec
    assert main(command) == DONE
    assert "/job:chief/task:0 leaves the start to the first worker" in capsys.readouterr().out
    environment.setenv("TF_CONFIG", spec.tf_config(spec.task("worker", 0)))
    assert main(command) == DONE
    assert "/job:ps/task:0/total = 18.0" in capsys.readouterr().out


def _scaled(task: Task, x: Any) -> Any:
    """Uses its own variable, which it only reads, and small and large constants: TensorFlow would fold them."""
    own = xb.shared(np.float64(0.1), "scale")
    w = xb.shared(np.ones((40, 40)) / 7.0, "w", device="/job:ps/task:0")
    ramp = xb.reshape(xb.arange(1600, dtype="float64"), (40, 40)) / 1600.0
    scores = (x * own * 3.0 * 0.7) @ (w * 1.1) * ramp * 0.3
    loss = xb.mean(scores * scores)
    xb.update(w, w - 0.1 * xb.grad(loss, w))
    return loss


@pytest.mark.tier("exhaustive")
def test_what_a_coordinator_has_computed_is_the_same_to_the_bit_in_one_process() -> None:
    job = Job(_scaled)
    job.data(lambda task, number: [np.random.default_rng([task.index, number]).normal(size=(40, 40))])
    asked = examples.asked(job, "tensorflow", 2, 1, 20, asynchronous=True, engine="coordinator")
    ran = running.run(asked)
    again = replaying.replay(asked, ran)
    assert len(ran.applied) == 40
    assert [*again] == ["/job:ps/task:0/w"]
    assert again["/job:ps/task:0/w"].tobytes() == ran.variables["/job:ps/task:0/w"].tobytes()


def _two_sums(task: Task, x: Any) -> Any:
    """Sums of one size after each other, of two dtypes at once, and one that no output needs. The second output reads a
    variable whose update comes after the sums."""
    w, count = xb.shared(np.ones(4), "w"), xb.shared(np.zeros(4), "count")
    before = xb.sum(w * x)
    (first,), (rows,) = (xb.all_reduce([one], "sum", across=task) for one in (w * x, xb.astype(x > 0.0, xb.int64)))
    (second,) = xb.all_reduce([first * x + w], "sum", across=task)
    xb.update(w, w * 0.5 + second * 0.01)
    xb.update(count, count + xb.astype(rows, xb.float64))
    return first, before


@pytest.mark.parametrize(
    "backend",
    [pytest.param("tensorflow", marks=pytest.mark.tier("standard")), pytest.param("tensorflow-xla", marks=HEAVY)],
)
def test_sums_within_a_step_are_those_of_one_process(backend: str) -> None:
    def rows(index: int, number: int) -> np.ndarray:
        return np.random.default_rng([index, number]).normal(size=4)

    job, w, count = Job(_two_sums), np.ones(4), np.zeros(4)
    job.data(lambda task, number: [rows(task.index, number)])
    ran = running.run(examples.asked(job, backend, 2, 0, 6))
    for number in range(6):
        each = [rows(index, number) for index in range(2)]
        first = w * sum(each)
        for index, x in enumerate(each):
            summed, before = ran.outputs[index][number]
            np.testing.assert_allclose(summed, first, rtol=1e-12)
            np.testing.assert_allclose(before, np.sum(w * x), rtol=1e-12)
        w, count = w * 0.5 + sum(first * x + w for x in each) * 0.01, count + sum(x > 0.0 for x in each)
    copies = [ran.variables[f"/job:worker/task:{index}/w"] for index in range(2)]
    np.testing.assert_allclose(copies[0], w, rtol=1e-12)
    assert copies[0].tobytes() == copies[1].tobytes()
    assert np.array_equal(ran.variables["/job:worker/task:1/count"], count)


def _inverse(task: Task, x: Any) -> Any:
    total = xb.shared(np.float64(0.0), "total", device="/job:ps/task:0")
    xb.update(total, total + xb.sum(xb.linalg.inv(x)))
    return total


@pytest.mark.tier("exhaustive")
def test_what_cannot_be_computed_is_no_loss_of_a_task() -> None:
    """One of three tasks has a matrix without an inverse. The coordinator cancels the others' steps with it."""
    job, lines = Job(_inverse), list[str]()
    job.data(lambda task, number: [np.zeros((3, 3)) if (task.index, number) == (1, 5) else np.eye(3)])
    asked = examples.asked(job, "tensorflow", 3, 1, 200, asynchronous=True, engine="coordinator", on_line=lines.append)
    with pytest.raises(ComputationError, match="has no result for these numbers"):
        running.run(asked)
    assert not [line for line in lines if "was lost" in line]


@pytest.mark.tier("exhaustive")
def test_engines_of_one_backend_are_rows_of_one_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["cluster", "run", f"{P10}:mirrored", "--backend", "tensorflow", "--steps", "6"]
    command += ["--engine", "tensorflow,multi-worker-mirrored", "--reports", str(tmp_path), "--name", "both"]
    assert main([*command, "--checkpoints", str(tmp_path / "kept")]) == DONE
    out = capsys.readouterr().out
    assert "tensorflow (tensorflow)" in out and "(multi-worker-mirrored)" in out
    done = read(tmp_path / "both" / "cluster.json.gz", Jobs)
    assert [run.by for run in done.runs] == ["tensorflow", "multi-worker-mirrored"]
    assert (done.runs[1].difference or 0.0) < 1e-10 and all(run.copies for run in done.runs)
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert kept == {"tensorflow-tensorflow", "tensorflow-multi-worker-mirrored"}
