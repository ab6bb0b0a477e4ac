"""A step of training as a workload, which `xbackend compare` measures.

Its arrays are a batch and the initial values of the strategy's variables. Its results are the loss, the further
scalars, and the new value of each variable. So every call makes the same step, and the new weights are checked.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from xbackend.errors import WorkloadError
from xbackend.strategies import Strategy
from xbackend.strategies.named import NAMES, REPLICATED, named
from xbackend.training.model import Model
from xbackend.workloads.workload import Workload, check_choice, check_count

MOST = 64  # replicas in one graph


def step_of(model: Model) -> Workload:
    """The workload of a model's step.

    Parameters: ``strategy`` (one of `NAMES`), ``replicas`` (of towers and mirrored: each on its logical device, dev0
    and so on; they share devices if fewer are measured), ``batch`` (rows).
    """
    names = cache(lambda: [*model.start()])  # of the weights

    def spread(strategy: str, replicas: int) -> Strategy:
        return named(strategy, [f"dev{i}" for i in range(replicas)], model.places)

    def step(*arrays: Any, strategy: str, replicas: int) -> Any:
        chosen = spread(strategy, replicas)
        start = chosen.start(dict.fromkeys(names(), np.zeros(())), model.optimizer)
        loss, further, moved = chosen.pure_step(model.loss, start, model.optimizer)(*arrays)
        return loss, further, moved

    step.__doc__ = f"A step of training: {model.summary}" if model.summary else "A step of training."
    sweep = {"strategy": "one", "replicas": 2, "batch": model.batch}
    workload = Workload(step, name=model.name, sweep=sweep)

    @workload.inputs
    def inputs(rng: np.random.Generator, *, strategy: str, replicas: int, batch: int) -> list[np.ndarray]:
        seed = int(rng.integers(1 << 31))
        weights = model.start(seed)
        batches, _ = model.batches(seed, None if batch == model.batch else batch)
        rows = next(iter(batches))
        if len(rows[0]) != batch:
            raise WorkloadError(f"workload {model.name}: its data give {len(rows[0])} rows, and batch={batch}")
        start = spread(strategy, replicas).start(weights, model.optimizer)
        return [*rows, *(value for one in start for value in one.values())]

    @workload.check
    def check(*, strategy: str, replicas: int, batch: int) -> None:
        check_choice(model.name, "strategy", strategy, NAMES if model.places else [n for n in NAMES if n != "model"])
        check_count(model.name, "replicas", replicas, 1, MOST)
        check_count(model.name, "batch", batch, replicas if strategy in REPLICATED else 1, 10**9)

    return workload
