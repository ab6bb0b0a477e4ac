"""The jobs of the examples P7 and P10, and their results by NumPy alone."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.cli.users import job as loaded
from xbackend.cluster import status
from xbackend.cluster.job import Job
from xbackend.cluster.jobspec import JobSpec
from xbackend.engines.spec import WORKER, ClusterSpec, Task, local

EXAMPLES = Path(__file__).parent.parent / "examples"
RATE, MOMENTUM = 0.1, 0.9
FILES = {"add_rank": "p7_between_graph.py", "mirrored": "p10_distributed.py", "served": "p10_distributed.py"}
Numbers = dict[str, np.ndarray]


@cache
def job(name: str) -> Job:
    """A job of the examples."""
    return loaded(f"{EXAMPLES / FILES[name]}:{name}")


def _spread(task: Task, x: Any, labels: Any) -> Any:
    """``mirrored``, with half of a task's rows on each of its two devices."""
    half, first = x.shape[0] // 2, start()
    gradients: dict[str, list[Any]] = {"w": [], "b": []}
    copies, losses = [], []
    rows = [half, x.shape[0] - half]
    for place, part in (("cpu:0", slice(0, half)), ("cpu:1", slice(half, x.shape[0]))):
        with xb.device(place):
            own = {name: xb.shared(value, f"{name}_{place[-1]}", device=place) for name, value in first.items()}
            copies.append(own)
            losses.append(xb.training.layers.cross_entropy(x[part] @ own["w"] + own["b"], labels[part]))
            for name, found in gradients.items():
                found.append(xb.grad(losses[-1], own[name]))
    reduced = {name: xb.all_reduce(found, weights=rows, across=task) for name, found in gradients.items()}
    for number, own in enumerate(copies):
        with xb.device(f"cpu:{number}"):
            for name, means in reduced.items():
                velocity = MOMENTUM * own[f"{name}_velocity"] + means[number]
                xb.update(own[f"{name}_velocity"], velocity)
                xb.update(own[name], own[name] - RATE * velocity)
    return xb.all_reduce(losses, weights=rows, across=task)[0]


def spread() -> Job:
    """A job whose tasks have two devices each."""
    made = Job(_spread)
    made.data(lambda task, number: job("mirrored").arrays(task, number))
    return made


def _two_devices(task: Task) -> Any:
    total = xb.shared(np.zeros(3), "total", device="/job:ps/task:0")
    parts = []
    for place in ("cpu:0", "cpu:1"):
        with xb.device(place):
            parts.append(xb.full((3,), task.index + 1.0) * 2.0)
    xb.update(total, total + (parts[0] + parts[1]))
    return total


def two_devices() -> Job:
    """A job whose tasks compute updates of a server on two devices."""
    return Job(_two_devices)


def asked(job: Job, backend: str, workers: int, servers: int = 0, steps: int = 12, **more: Any) -> JobSpec:
    """The `JobSpec` of a job on this machine, with limits for a slow machine."""
    how = {"limit": 60.0, "start_limit": 300.0, "recorded": True, **more}
    return JobSpec(job, backend, lambda: local(workers, servers), steps, **how)


def toml(spec: ClusterSpec) -> str:
    """A cluster in the form of ``--cluster FILE.toml``."""
    return "\n".join(["[jobs]", *(f"{name} = {json.dumps(own)}" for name, own in spec.jobs.items()), ""])


def process_of(victim: str) -> int:
    """The process of a task in the newest cluster of this process. A killed cluster leaves its file behind, and process
    numbers come again."""
    found: dict[float, int] = {}
    for path in status.folder().glob("*-*/status.json"):
        with suppress(OSError, ValueError):
            content = json.loads(path.read_text())
            if content["process"] == os.getpid():
                ours = [int(process) for task, process, _ in content["tasks"] if task == victim]
                if ours:
                    found[path.stat().st_mtime] = ours[0]
    return found[max(found)] if found else 0


def start() -> Numbers:
    """Weights and momentum before the first step."""
    task = Task(WORKER, 0, 1)
    x, _ = job("mirrored").arrays(task, 0)
    classes = int(max(job("mirrored").arrays(task, k)[1].max() for k in range(5))) + 1
    w = np.zeros((x.shape[1], classes))
    return {"w": w, "b": np.zeros(classes), "w_velocity": np.zeros_like(w), "b_velocity": np.zeros(classes)}


def loss_and_gradients(held: Numbers, x: np.ndarray, labels: np.ndarray) -> tuple[float, Numbers]:
    """Mean cross entropy over rows, by formula."""
    scores = x @ held["w"] + held["b"]
    scores = scores - scores.max(1, keepdims=True)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.mean(np.log(shares[rows, labels]))
    shares[rows, labels] -= 1.0
    shares /= len(labels)
    return float(loss), {"w": x.T @ shares, "b": shares.sum(0)}


def moved(held: Numbers, gradients: Numbers, share: float = 1.0) -> Numbers:
    """One update with momentum."""
    found = dict(held)
    for name, gradient in gradients.items():
        found[f"{name}_velocity"] = MOMENTUM * held[f"{name}_velocity"] + gradient * share
        found[name] = held[name] - RATE * found[f"{name}_velocity"]
    return found


def mirrored(steps: int) -> tuple[list[float], Numbers]:
    """All workers in step equal one worker with all rows."""
    held, losses = start(), []
    for number in range(steps):
        loss, gradients = loss_and_gradients(held, *job("mirrored").arrays(Task(WORKER, 0, 1), number))
        losses.append(loss)
        held = moved(held, gradients)
    return losses, held


def served(steps: int, workers: int) -> tuple[list[list[float]], Numbers]:
    """In step: each task reads the variables at the beginning of the step, and updates come in the order of tasks."""
    held, losses = start(), []
    for number in range(steps):
        shares = [job("served").arrays(Task(WORKER, k, workers), number) for k in range(workers)]
        each = [loss_and_gradients(held, *share) for share in shares]
        losses.append([loss for loss, _ in each])
        for _, gradients in each:
            held = moved(held, gradients, 1 / workers)
    return losses, held
