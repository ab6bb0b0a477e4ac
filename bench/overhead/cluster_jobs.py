"""The programs P7 and P10 as jobs of a cluster, of any dtype, and their results in one process, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import xbackend as xb
from xbackend.cluster.job import Job
from xbackend.engines.spec import WORKER, Task
from xbackend.strategies import Mirrored
from xbackend.training import SGD

if TYPE_CHECKING:  # type checkers know it as the programs in its folder do
    from told import MOMENTUM, RATE, gradients
else:
    from overhead.handwritten.cluster.told import MOMENTUM, RATE, gradients

ROWS, FEATURES, CLASSES, BATCH = 301, 20, 4, 63  # rows do not divide by the batch, nor the batch by the workers
EPOCH = -(-ROWS // BATCH)  # steps
SERVER = "/job:ps/task:0"


def data(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels, the same for every side."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES))
    return x.astype(dtype), np.argmax(x @ rng.normal(size=(FEATURES, CLASSES)), axis=1)


def rows_of(number: int) -> slice:
    """The rows of a step's batch."""
    begin = number % EPOCH * BATCH
    return slice(begin, min(begin + BATCH, ROWS))


def zeros(dtype: str) -> dict[str, np.ndarray]:
    return {"w": np.zeros((FEATURES, CLASSES), dtype), "b": np.zeros(CLASSES, dtype)}


def loss(weights: Any, x: Any, labels: Any) -> Any:
    return xb.training.layers.cross_entropy(x @ weights["w"] + weights["b"], labels)


def job(program: str, dtype: str) -> Job:
    """``add_rank``, ``mirrored`` or ``served``."""
    made = Job(_FUNCTIONS[program](dtype))
    if program != "add_rank":
        x, labels = data(dtype)

        def share(task: Task, number: int) -> tuple[np.ndarray, np.ndarray]:
            batch = rows_of(number)
            own = task.share(batch.stop - batch.start)
            rows = slice(batch.start + own.start, batch.start + own.stop)
            return x[rows], labels[rows]

        made.data(share)
    return made


def _add_rank(dtype: str) -> Callable[..., Any]:
    def add_rank(task: Task) -> Any:
        total = xb.shared(np.float64(0.0), "total", SERVER)
        xb.update(total, total + (task.index + 1.0))
        return total

    return add_rank


def _mirrored(dtype: str) -> Callable[..., Any]:
    def mirrored(task: Task, x: Any, labels: Any) -> Any:
        weights = {name: xb.shared(value, name) for name, value in zeros(dtype).items()}
        own, rows = loss(weights, x, labels), [x.shape[0]]
        for name, variable in weights.items():
            velocity = xb.shared(zeros(dtype)[name], f"{name}_velocity")
            (gradient,) = xb.all_reduce([xb.grad(own, variable)], weights=rows, across=task)
            moved = MOMENTUM * velocity + gradient
            xb.update(velocity, moved)
            xb.update(variable, variable - RATE * moved)
        return xb.all_reduce([own], weights=rows, across=task)[0]

    return mirrored


def _served(dtype: str) -> Callable[..., Any]:
    def served(task: Task, x: Any, labels: Any) -> Any:
        weights = {name: xb.shared(value, name, SERVER) for name, value in zeros(dtype).items()}
        own = loss(weights, x, labels)
        for name, variable in weights.items():
            velocity = xb.shared(zeros(dtype)[name], f"{name}_velocity", SERVER)
            moved = MOMENTUM * velocity + xb.grad(own, variable) / task.count
            xb.update(velocity, moved)
            xb.update(variable, variable - RATE * moved)
        return own

    return served


_FUNCTIONS = {"add_rank": _add_rank, "mirrored": _mirrored, "served": _served}


def in_one_process(
    program: str, workers: int, steps: int, dtype: str, *, in_turn: bool = True
) -> dict[str, np.ndarray]:
    """The weights after so many steps, in NumPy. In ``served`` every worker computes from the weights before the step
    (``in_turn``), or from those of its predecessor."""
    if program == "add_rank":
        return {"total": np.array(steps * workers * (workers + 1) / 2)}
    x, labels = data(dtype)
    weights, velocities = zeros(dtype), zeros(dtype)
    for number in range(steps):
        batch, before = rows_of(number), dict(weights)
        if program == "mirrored":
            _move(weights, velocities, gradients(weights, x[batch], labels[batch])[1])
            continue
        for index in range(workers):
            own = Task(WORKER, index, workers).share(batch.stop - batch.start)
            rows = slice(batch.start + own.start, batch.start + own.stop)
            slopes = gradients(before if in_turn else weights, x[rows], labels[rows])[1]
            _move(weights, velocities, {name: slope / workers for name, slope in slopes.items()})
    return weights


def _move(weights: dict[str, np.ndarray], velocities: dict[str, np.ndarray], slopes: dict[str, np.ndarray]) -> None:
    for name, slope in slopes.items():
        velocities[name] = MOMENTUM * velocities[name] + slope
        weights[name] = weights[name] - RATE * velocities[name]


def in_one_graph(places: list[str], dtype: str) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    """``mirrored`` with a replica on each place of a process (`strategies.Mirrored`), and the weights of the first."""
    strategy, optimizer = Mirrored(places), SGD(RATE, momentum=MOMENTUM)
    copies = strategy.variables(zeros(dtype), optimizer)
    return strategy.step(loss, copies, optimizer), copies[0].weights
