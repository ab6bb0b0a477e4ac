"""Jobs on a cluster that nothing happens to: where they go on, what they are given, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import cluster_examples as examples
import numpy as np
import pytest

import xbackend as xb
from xbackend.cli import DONE, WRONG, main
from xbackend.cluster import running
from xbackend.cluster.asked import Asked
from xbackend.cluster.job import Job
from xbackend.cluster.starting import local
from xbackend.engines.spec import SERVER, WORKER, ClusterSpec, Task
from xbackend.errors import ClusterError, UsageError
from xbackend.measure import clusters

pytestmark = pytest.mark.tier("standard")
ROWS = (4, 4, 3)  # of the batches of an epoch


def summing(task: Any, x: Any) -> Any:
    """Keeps the sum of all rows of all tasks."""
    total = xb.shared(np.zeros(1), "total")
    (own,) = xb.all_reduce([xb.sum(x, axis=0)], "sum", across=task)
    xb.update(total, total + own)
    return own


def adding(task: Any) -> Any:
    total = xb.shared(np.float64(0.0), "total", device="/job:ps/task:0")
    xb.update(total, total + 1.0)
    return total


def job(function: Any, asked_for: list[int] | None = None) -> Job:
    made = Job(function)
    if function is not adding:

        def data(task: Task, number: int) -> list[np.ndarray]:
            if asked_for is not None:
                asked_for.append(number)
            return [np.ones((ROWS[number % len(ROWS)], 1))]

        made.data(data)
    return made


def asked(function: Any = summing, steps: int = 6, servers: int = 0, **more: Any) -> Asked:
    return examples.asked(job(function, more.pop("asked_for", None)), "numpy", 2, servers, steps, **more)


def total(ran: Any, place: str = "/job:worker/task:0") -> float:
    return float(ran.variables[f"{place}/total"].item())


def test_a_job_goes_on_from_its_checkpoint_whatever_the_shapes_of_its_batches(tmp_path: Path) -> None:
    lines: list[str] = []
    first = running.run(asked(every=3, folder=tmp_path))
    assert total(first) == 2 * sum(ROWS) * 2
    ran = running.run(asked(steps=9, every=3, folder=tmp_path, on_line=lines.append))
    assert any("goes on from step 6" in line for line in lines), lines
    assert total(ran) == 2 * sum(ROWS) * 3


def test_a_job_that_has_ended_asks_for_no_step_that_is_not_there(tmp_path: Path) -> None:
    numbers: list[int] = []
    running.run(asked(every=3, folder=tmp_path))
    ran = running.run(asked(every=3, folder=tmp_path, asked_for=numbers))
    assert total(ran) == 2 * sum(ROWS) * 2 and max(numbers) < 6


def test_fewer_steps_than_a_checkpoint_has_are_refused(tmp_path: Path) -> None:
    running.run(asked(every=3, folder=tmp_path))
    with pytest.raises(ClusterError, match=r"checkpoint of step 6, and 4 steps were asked for: ask for more"):
        running.run(asked(steps=4, every=3, folder=tmp_path))


def test_asynchronous_tasks_keep_their_end(tmp_path: Path) -> None:
    lines: list[str] = []
    running.run(asked(adding, servers=1, steps=30, asynchronous=True, folder=tmp_path))
    ran = running.run(asked(adding, servers=1, steps=40, asynchronous=True, folder=tmp_path, on_line=lines.append))
    assert any("goes on from step 30" in line for line in lines), lines
    assert total(ran, "/job:ps/task:0") == 2 * 40


def test_backends_keep_their_checkpoints_apart(tmp_path: Path) -> None:
    both = asked(folder=tmp_path)
    done = clusters.jobs(both, ["numpy", "jax"], replay=False, on_end=lambda _: None)
    assert [len(run.seconds) for run in done.runs] == [2, 2]
    only = clusters.jobs(replace(both, folder=tmp_path / "one"), ["numpy"], replay=False, on_end=lambda _: None)
    assert len(only.runs[0].seconds) == 2 and list((tmp_path / "one").glob("*.safetensors"))


def test_a_variable_without_a_name_is_refused() -> None:
    def unnamed(task: Any, x: Any) -> None:
        own = xb.shared(np.float64(0.0))
        xb.update(own, own + xb.sum(x))

    with pytest.raises(ClusterError, match=r"know a variable by its name: give it one \(at .*test_cluster_runs"):
        running.run(asked(unnamed))


def test_parameter_servers_may_stand_last() -> None:
    def spec() -> ClusterSpec:
        made = local(2, 1)
        return ClusterSpec({WORKER: made.jobs[WORKER], SERVER: made.jobs[SERVER]})

    assert spec().tasks[0] == Task(SERVER, 0, 1)
    ran = running.run(replace(asked(adding, servers=1), cluster=spec))
    assert total(ran, "/job:ps/task:0") == 12


def test_jobs_of_other_names_are_refused() -> None:
    named = ClusterSpec({"trainer": ("127.0.0.1:29400",)})
    with pytest.raises(ClusterError, match="has the jobs trainer: tasks that compute are of the job worker"):
        running.run(replace(asked(), cluster=lambda: named))


def test_what_has_no_other_order_is_not_replayed() -> None:
    with pytest.raises(UsageError, match=r"--replay repeats the recorded updates of --asynchronous tasks"):
        clusters.jobs(asked(adding, servers=1), ["numpy"], replay=True, on_end=lambda _: None)


def test_the_first_ports_are_those_that_were_named() -> None:
    made, numbers = list[int](), itertools.count()

    def spec() -> ClusterSpec:
        made.append(next(numbers))
        return local(2, 0)

    clusters.jobs(replace(asked(), cluster=spec), ["numpy"], replay=False, on_end=lambda _: None)
    assert made == [0]


def test_a_cluster_that_is_given_says_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(local(2, 1).to_toml())
    target = f"{examples.EXAMPLES / 'p7_between_graph.py'}:add_rank"
    assert main(["cluster", "run", target, "--cluster", str(file), "--ps", "1", "--port", "29500"]) == WRONG
    assert "--cluster says which tasks there are and where: leave out --ps and --port" in capsys.readouterr().err
    own = ["--reports", str(tmp_path), "--steps", "4"]
    assert main(["cluster", "run", target, "--cluster", str(file), *own]) == DONE
