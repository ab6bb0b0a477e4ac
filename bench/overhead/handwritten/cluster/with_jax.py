"""`jax.distributed`: the step under `jax.shard_map` over the devices of all processes, jitted as one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from told import MOMENTUM, RATE, Told, told


def mirrored(own: Told) -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(own.jobs["worker"][0], own.workers, own.index)
    mesh = jax.make_mesh((own.workers,), ("tasks",))
    whole, spread = jax.P(), jax.P("tasks")

    def loss_of(weights: Any, x: Any, labels: Any, present: Any) -> Any:
        """The mean over the present rows of all processes: shares have to be equal, and are padded."""
        scores = x @ weights["w"] + weights["b"]
        picked = jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
        losses = (jax.nn.logsumexp(scores, axis=1) - picked) * present
        return jax.lax.psum(jnp.sum(losses), "tasks") / jax.lax.psum(jnp.sum(present), "tasks")

    def part(state: Any, x: Any, labels: Any, present: Any) -> Any:
        weights, velocities = state
        loss, slopes = jax.value_and_grad(loss_of)(weights, x, labels, present)
        velocities = jax.tree.map(lambda g, v: g + MOMENTUM * v, slopes, velocities)
        return loss, (jax.tree.map(lambda w, v: w - RATE * v, weights, velocities), velocities)

    run = jax.shard_map(part, mesh=mesh, in_specs=(whole, spread, spread, spread), out_specs=whole)
    jitted = jax.jit(run, donate_argnums=0)
    there = jax.NamedSharding(mesh, whole)
    begin = {n: jax.make_array_from_process_local_data(there, v) for n, v in own.zeros().items()}
    state = begin, {n: jax.make_array_from_process_local_data(there, v) for n, v in own.zeros().items()}
    spread_over = jax.NamedSharding(mesh, spread)

    def step(x: np.ndarray, labels: np.ndarray, rows: int) -> float:
        nonlocal state
        share = -(-rows // own.workers)
        filled = [np.zeros((share, *a.shape[1:]), a.dtype) for a in (x, labels)]
        present = np.zeros(share, x.dtype)
        filled[0][: len(x)], filled[1][: len(x)], present[: len(x)] = x, labels, 1
        given = [jax.make_array_from_process_local_data(spread_over, a) for a in (*filled, present)]
        loss, state = jitted(state, *given)
        return float(loss)

    own.measure(step, lambda: {n: np.asarray(v) for n, v in state[0].items()})


if __name__ == "__main__":
    mirrored(told())
