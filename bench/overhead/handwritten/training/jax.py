"""A step of training in JAX: a jitted function of the state, which it gives back, with the old state donated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from overhead.handwritten import ByHand
from overhead.handwritten.training import MOMENTUM, RATE, Spread


def _loss(weights: Any, x: Any, labels: Any) -> Any:
    hidden = jnp.tanh(x @ weights["w"] + weights["b"])
    scores = hidden @ weights["v"] + weights["c"]
    picked = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(scores, axis=1) - picked)


def step(mode: str, dtype: str, weights: Mapping[str, np.ndarray]) -> ByHand:
    """SGD with momentum of a classifier with one hidden layer."""

    def run(state: Any, x: Any, labels: Any) -> Any:
        weights, velocities = state
        loss, gradients = jax.value_and_grad(_loss)(weights, x, labels)
        velocities = jax.tree.map(lambda g, v: g + MOMENTUM * v, gradients, velocities)
        return loss, (jax.tree.map(lambda w, v: w - RATE * v, weights, velocities), velocities)

    jitted = jax.jit(run, donate_argnums=0)
    placed = {name: jax.device_put(value) for name, value in weights.items()}
    state: Any = placed, jax.tree.map(jnp.zeros_like, placed)

    def call(x: Any, labels: Any) -> Any:
        nonlocal state
        loss, state = jitted(state, x, labels)
        return loss

    return ByHand(call, jax.device_put, jax.block_until_ready)


def spread(weights: Mapping[str, np.ndarray], count: int) -> Spread:
    """The same under `jax.shard_map`: weights on every device, rows spread, gradients averaged by `pmean`. The rows
    have to divide; one device is a mesh of one."""
    mesh = jax.make_mesh((count,), ("d",))
    whole, spread = jax.P(), jax.P("d")

    def part(state: Any, x: Any, labels: Any) -> Any:
        weights, velocities = state
        loss, gradients = jax.value_and_grad(lambda w: jax.lax.pmean(_loss(w, x, labels), "d"))(weights)
        velocities = jax.tree.map(lambda g, v: g + MOMENTUM * v, gradients, velocities)
        return loss, (jax.tree.map(lambda w, v: w - RATE * v, weights, velocities), velocities)

    run = jax.shard_map(part, mesh=mesh, in_specs=(whole, spread, spread), out_specs=whole)
    jitted = jax.jit(run, donate_argnums=0)
    placed = {name: jax.device_put(value, jax.NamedSharding(mesh, whole)) for name, value in weights.items()}
    state: Any = placed, jax.tree.map(jnp.zeros_like, placed)

    def call(x: Any, labels: Any) -> Any:
        nonlocal state
        loss, state = jitted(state, x, labels)
        return loss

    def place(x: np.ndarray, labels: np.ndarray) -> tuple[Any, ...]:
        return tuple(jax.device_put(array, jax.NamedSharding(mesh, spread)) for array in (x, labels))

    return Spread(call, place, jax.block_until_ready, lambda: {n: np.asarray(v) for n, v in state[0].items()})
