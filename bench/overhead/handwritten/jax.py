"""JAX by hand: a jitted function; arrays on the first device in."""

from __future__ import annotations

from typing import Any

import jax

from overhead.handwritten import ByHand, chain


def product(mode: str, dtype: str) -> ByHand:
    """Two matrices multiplied."""
    return ByHand(jax.jit(jax.numpy.matmul), jax.device_put, jax.block_until_ready)


def sum_of_powers(mode: str, dtype: str, n: int) -> ByHand:
    """A^n + B^n."""

    def powers(a: Any, b: Any) -> Any:
        return chain(a, n, jax.numpy.matmul) + chain(b, n, jax.numpy.matmul)

    return ByHand(jax.jit(powers), jax.device_put, jax.block_until_ready)
