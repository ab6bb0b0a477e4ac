"""Optax's updates of weights, and its schedules; run by the interpreter of JAX's environment.

Reads the number of steps from its input, writes JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import optax  # noqa: E402  # after the option, which is for the whole process

SCHEDULES: dict[str, Any] = {
    "exponential": optax.exponential_decay(0.1, 10, 0.5),
    "staircase": optax.exponential_decay(0.1, 10, 0.5, staircase=True),
    "cosine": optax.cosine_decay_schedule(0.1, 20, alpha=0.1),
    "piecewise": optax.piecewise_constant_schedule(0.1, {5: 0.5, 10: 0.1}),
    "warmed up": optax.join_schedules([optax.linear_schedule(0.0, 0.1, 10), optax.constant_schedule(0.1)], [10]),
}
OPTIMIZERS: dict[str, Any] = {
    "descent": optax.sgd(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9),
    "nesterov": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "rmsprop": optax.rmsprop(0.01, decay=0.9, eps=1e-8),
    "adam": optax.adam(0.01),
    "adam, clipped": optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.01)),
    "momentum, scheduled": optax.sgd(SCHEDULES["exponential"], momentum=0.9),
    "adam, warmed up": optax.adam(SCHEDULES["warmed up"], b1=0.8, b2=0.99, eps=1e-6),
}


def gradients(steps: int) -> np.ndarray:
    """Gradients of two weights of three and two elements, for each step, small and large ones."""
    return np.random.default_rng(5).normal(size=(steps, 5)) * np.logspace(-3, 1, 5)


def moved(optimizer: Any, steps: int) -> list[list[float]]:
    """All weights after each step, beginning with zeros."""
    weights = {"v": np.zeros(3), "w": np.zeros(2)}
    state = optimizer.init(weights)
    found = []
    for one in gradients(steps):
        updates, state = optimizer.update({"v": one[:3], "w": one[3:]}, state, weights)
        weights = optax.apply_updates(weights, updates)
        found.append([*map(float, weights["v"]), *map(float, weights["w"])])
    return found


if __name__ == "__main__":
    steps = int(sys.stdin.read())
    json.dump(
        {
            "version": optax.__version__,
            "weights": {name: moved(own, steps) for name, own in OPTIMIZERS.items()},
            "rates": {name: [float(own(k)) for k in range(steps)] for name, own in SCHEDULES.items()},
        },
        sys.stdout,
    )
