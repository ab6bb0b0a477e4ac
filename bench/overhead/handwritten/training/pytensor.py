"""A step of training in PyTensor: shared variables and the updates of a function."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytensor
import pytensor.tensor as pt

from overhead.handwritten import ByHand
from overhead.handwritten.pytensor import compiled
from overhead.handwritten.training import MOMENTUM, RATE


def step(mode: str, dtype: str, weights: Mapping[str, np.ndarray]) -> ByHand:
    """SGD with momentum of a classifier with one hidden layer."""
    variables = {name: pytensor.shared(value, name) for name, value in weights.items()}
    velocities = {name: pytensor.shared(np.zeros_like(value), name) for name, value in weights.items()}
    x, labels = pt.matrix("x", dtype=dtype), pt.vector("labels", dtype="int64")
    hidden = pt.tanh(x @ variables["w"] + variables["b"])
    scores = hidden @ variables["v"] + variables["c"]
    loss = -pt.mean(pt.special.log_softmax(scores, axis=1)[pt.arange(x.shape[0]), labels])
    updates = {}
    for variable, velocity, gradient in zip(
        variables.values(), velocities.values(), pt.grad(loss, list(variables.values())), strict=True
    ):
        updates[velocity] = gradient + np.asarray(MOMENTUM, dtype) * velocity
        updates[variable] = variable - np.asarray(RATE, dtype) * updates[velocity]
    return compiled(mode, [x, labels], loss, updates)
