"""The worker's part of one graph against several: all replicas of a step of P10 in one graph of one process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from overhead import cluster_jobs as jobs

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend


def replicas(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """A replica on each device. ``job``: ``steps``.

    Returns ``nodes`` of the placed program, ``build`` (seconds from the function to the end of its first step),
    ``seconds`` of each later step, from NumPy arrays to a number, and ``weights``.
    """
    x, labels = jobs.data("float64")
    batches = [(x[jobs.rows_of(k)], labels[jobs.rows_of(k)]) for k in range(jobs.EPOCH)]
    begun = time.perf_counter()
    step, weights = jobs.in_one_graph([str(device) for device in backend.devices], "float64")
    runs = {len(batches[0][0]): backend.compile(step, *batches[0])}
    runs[len(batches[0][0])](*batches[0])
    build = time.perf_counter() - begun
    nodes, seconds = len(runs[len(batches[0][0])].program.values), list[float]()
    for number in range(1, job["steps"]):
        batch = batches[number % jobs.EPOCH]
        if len(batch[0]) not in runs:
            runs[len(batch[0])] = backend.compile(step, *batch)
        begun = time.perf_counter()
        runs[len(batch[0])](*batch)
        seconds.append(time.perf_counter() - begun)
    found = {name: np.asarray(backend.get_value(variable)) for name, variable in weights.items()}
    return {"nodes": nodes, "build": build, "seconds": seconds[jobs.EPOCH :], "weights": found}
