"""Jobs of several processes on every backend: P7 and P10, against their results by NumPy alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cluster_examples as examples
import numpy as np
import pytest

from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.cluster import replaying, running
from xbackend.cluster.job_results import JobResults
from xbackend.cluster.job_results import words as said
from xbackend.engines.registry import of
from xbackend.errors import ClusterError

pytestmark = [pytest.mark.tier("standard"), pytest.mark.shared_out]

STEPS = 12  # 5 batches are an epoch, the last one smaller
MORE = (pytest.mark.tier("exhaustive"), pytest.mark.variant)  # one launcher and one protocol, whatever is compiled
COUNTS = [2, pytest.param(3, marks=MORE)]
SERVER = "/job:ps/task:0"
BEYOND = sorted({engine for entry in registry.REGISTRY.values() for engine in entry.engines[1:]})


def run(job: str, backend: str, workers: int, servers: int = 0, **more: Any) -> JobResults:
    """Run a job to its end."""
    found = running.run(examples.asked(examples.job(job), backend, workers, servers, STEPS, **more))
    assert not found.faults
    return found


def refused(job: str, backend: str, **more: bool) -> bool:
    """Whether the engine has no parameter servers. It says why, and starts nothing."""
    if not of(backend).no_servers:
        return False
    with pytest.raises(ClusterError, match=r"no parameter servers here: .* take --backend tensorflow"):
        running.run(examples.asked(examples.job(job), backend, 2, 1, STEPS, **more))
    return True


def close(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    """The largest difference is small against the largest number."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert np.max(np.abs(found - expected)) <= 1e-10 * np.max(np.abs(expected)), name


def without(backend: str, engine: str, why: str, job: str, servers: int, **more: bool) -> bool:
    """Whether the backend lacks that engine, or the engine such a job. The refusal says so, and nothing is started."""
    if engine not in registry.get(backend).engines:
        with pytest.raises(ClusterError, match=rf"^backend {backend} is not joined by '{engine}', but by "):
            of(backend, engine)
        return True
    if why:
        with pytest.raises(ClusterError, match=why):
            running.run(examples.asked(examples.job(job), backend, 2, servers, STEPS, engine=engine, **more))
    return bool(why)


@pytest.mark.heavy
@pytest.mark.one_each(2, 5)
@pytest.mark.parametrize("workers", [*COUNTS, pytest.param(4, marks=MORE)])
def test_mirrored_workers_have_the_weights_of_one(name: str, workers: int) -> None:
    ran = run("mirrored", name, workers)
    losses, expected = examples.mirrored(STEPS)
    for variable, value in expected.items():
        copies = [ran.variables[f"/job:worker/task:{k}/{variable}"] for k in range(workers)]
        close(copies[0], value, variable)
        assert len({copy.tobytes() for copy in copies}) == 1, f"the copies of {variable} differ"
    assert len(ran.variables) == workers * len(expected)
    for outputs in ran.outputs.values():
        np.testing.assert_allclose([outputs[k] for k in range(STEPS)], losses, rtol=1e-10)


@pytest.mark.heavy
@pytest.mark.one_each(0, 5)
def test_workers_of_two_devices_each_have_the_weights_of_one(name: str) -> None:
    two = Settings(virtual_devices=2)
    found = running.run(examples.asked(examples.spread(), name, 2, steps=STEPS, settings=two))
    losses, weights = examples.mirrored(STEPS)
    assert len(found.variables) == 2 * 2 * len(weights)
    for place, array in found.variables.items():
        close(array, weights[place.rpartition("/")[2].rpartition("_")[0]], place)
    for variable in weights:
        copies = [a for place, a in found.variables.items() if place.endswith((f"/{variable}_0", f"/{variable}_1"))]
        assert len(copies) == 4 and len({a.tobytes() for a in copies}) == 1, f"the copies of {variable} differ"
    np.testing.assert_allclose([found.outputs[0][k] for k in range(STEPS)], losses, rtol=1e-10)


@pytest.mark.one_each(1, 5)
@pytest.mark.parametrize("workers", COUNTS)
def test_no_update_is_lost_in_step(name: str, workers: int) -> None:
    if refused("add_rank", name):
        return
    ran = run("add_rank", name, workers, 1)
    assert ran.variables == {f"{SERVER}/total": STEPS * sum(range(1, workers + 1))}
    whose = [(one.version, one.worker, one.step, one.read) for one in ran.applied]
    in_turn = [(step, worker) for step in range(STEPS) for worker in range(workers)]
    assert whose == [(k + 1, worker, step, (step * workers,)) for k, (step, worker) in enumerate(in_turn)]
    for outputs in ran.outputs.values():
        assert [outputs[k] for k in range(STEPS)] == [k * sum(range(1, workers + 1)) for k in range(STEPS)]


@pytest.mark.one_each(4, 5)
@pytest.mark.parametrize("workers", COUNTS)
def test_no_update_is_lost_out_of_step_and_they_can_be_repeated(name: str, workers: int) -> None:
    if refused("add_rank", name, asynchronous=True):
        return
    ran = run("add_rank", name, workers, 1, asynchronous=True)
    assert ran.variables == {f"{SERVER}/total": STEPS * sum(range(1, workers + 1))}
    assert sorted((one.worker, one.step) for one in ran.applied) == [
        (w, k) for w in range(workers) for k in range(STEPS)
    ]
    assert [one.version for one in ran.applied] == list(range(1, workers * STEPS + 1))
    assert all(one.read[0] < one.version for one in ran.applied)
    asked = examples.asked(examples.job("add_rank"), name, workers, 1, STEPS, asynchronous=True)
    again = replaying.replay(asked, ran)
    assert {k: v.tobytes() for k, v in again.items()} == {k: v.tobytes() for k, v in ran.variables.items()}
    assert not replaying.differing(ran, again)
    assert f"{workers * STEPS} updates, each applied once" in said(ran)


@pytest.mark.heavy
@pytest.mark.one_each(3, 5)
@pytest.mark.parametrize("workers", COUNTS)
def test_served_in_step_each_reads_the_beginning_and_brings_its_update_in_turn(name: str, workers: int) -> None:
    if refused("served", name):
        return
    ran = run("served", name, workers, 1)
    losses, expected = examples.served(STEPS, workers)
    assert [one.read for one in ran.applied] == [(k // workers * workers,) for k in range(workers * STEPS)]
    for variable, value in expected.items():
        close(ran.variables[f"{SERVER}/{variable}"], value, variable)
    for worker, outputs in ran.outputs.items():
        np.testing.assert_allclose([outputs[k] for k in range(STEPS)], [each[worker] for each in losses], rtol=1e-10)


@pytest.mark.tier("exhaustive")
def test_served_out_of_step_can_be_repeated_to_the_bit(name: str) -> None:
    if refused("served", name, asynchronous=True):
        return
    ran = run("served", name, 2, 1, asynchronous=True)
    again = replaying.replay(examples.asked(examples.job("served"), name, 2, 1, STEPS, asynchronous=True), ran)
    assert {k: v.tobytes() for k, v in again.items()} == {k: v.tobytes() for k, v in ran.variables.items()}


@pytest.mark.one_each(2, 5)
@pytest.mark.parametrize("workers", COUNTS)
@pytest.mark.parametrize("engine", BEYOND)
def test_mirrored_by_another_engine_workers_have_the_weights_of_one(name: str, engine: str, workers: int) -> None:
    why = "tasks that do not wait for each other: .* add --asynchronous" if engine == "coordinator" else ""
    if without(name, engine, why, "mirrored", 0):
        return
    ran = run("mirrored", name, workers, engine=engine)
    losses, expected = examples.mirrored(STEPS)
    for variable, value in expected.items():
        copies = [ran.variables[f"/job:worker/task:{k}/{variable}"] for k in range(workers)]
        close(copies[0], value, variable)
        assert len({copy.tobytes() for copy in copies}) == 1, f"the copies of {variable} differ"
    for outputs in ran.outputs.values():
        np.testing.assert_allclose([outputs[k] for k in range(STEPS)], losses, rtol=1e-10)


@pytest.mark.one_each(2, 5)
@pytest.mark.parametrize("workers", COUNTS)
@pytest.mark.parametrize("engine", BEYOND)
def test_by_another_engine_no_update_is_lost_and_they_can_be_repeated(name: str, engine: str, workers: int) -> None:
    why = "" if engine == "coordinator" else "no parameter servers here: .* take --engine tensorflow or"
    if without(name, engine, why, "served", 1, asynchronous=True):
        return
    ran = run("served", name, workers, 1, asynchronous=True, engine=engine)
    assert sorted((one.worker, one.step) for one in ran.applied) == [
        (w, k) for w in range(workers) for k in range(STEPS)
    ]
    assert [one.version for one in ran.applied] == list(range(1, workers * STEPS + 1))
    asked = examples.asked(examples.job("served"), name, workers, 1, STEPS, asynchronous=True, engine=engine)
    again = replaying.replay(asked, ran)
    assert {k: v.tobytes() for k, v in again.items()} == {k: v.tobytes() for k, v in ran.variables.items()}
    assert run("add_rank", name, workers, 1, asynchronous=True, engine=engine).variables == {
        f"{SERVER}/total": STEPS * sum(range(1, workers + 1))
    }


@pytest.mark.one_each(3, 4)
def test_by_another_engine_a_task_has_several_devices_or_says_why_not(name: str) -> None:
    two = Settings(virtual_devices=2)
    for engine in registry.get(name).engines[1:]:
        if of(name, engine).coordinated:
            asked = examples.asked(
                examples.two_devices(), name, 1, 1, 4, settings=two, asynchronous=True, engine=engine
            )
            with pytest.raises(ClusterError, match=r"uses cpu:0 and cpu:1: by .* take --engine tensorflow"):
                running.run(asked)
            continue
        found = running.run(examples.asked(examples.spread(), name, 2, steps=STEPS, settings=two, engine=engine))
        _, weights = examples.mirrored(STEPS)
        for place, array in found.variables.items():
            close(array, weights[place.rpartition("/")[2].rpartition("_")[0]], place)


def test_a_missing_environment_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path))
    lines: list[str] = []
    asked = replace(examples.asked(examples.job("mirrored"), "numpy", 1, 0, 1), on_line=lines.append)
    assert running.run(asked).variables
    assert any("environment numpy: ready" in line for line in lines)
