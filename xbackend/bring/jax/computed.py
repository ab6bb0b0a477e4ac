"""What JAX itself computes of a graph that was brought: its results, and its gradients of a scalar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.origin import Origin


def origin_of(
    program: TracedProgram,
    arrays: Sequence[np.ndarray],
    function: Callable[..., Any],
    examples: Sequence[Any],
    differentiated: Callable[..., Any],
) -> Origin:
    """The program of a function, with JAX's results. A single floating-point scalar also has JAX's gradients, those of
    ``differentiated``. ``examples`` are the arrays in the structure of the function's arguments."""
    import jax

    results = [np.asarray(one) for one in jax.tree.leaves(jax.jit(function)(*examples))]
    floating = tuple(k for k, one in enumerate(arrays) if one.dtype.kind == "f")
    scalar = len(results) == 1 and results[0].ndim == 0 and results[0].dtype.kind == "f"
    slopes = _slopes(differentiated, examples, floating) if scalar and floating else []
    gradient = [program.values[program.inputs[k]].params["name"] for k in floating] if slopes else []
    return Origin(program, arrays, gradient, results, slopes, {"graph": f"JAX {jax.__version__}"})


def _slopes(function: Callable[..., Any], examples: Sequence[Any], floating: tuple[int, ...]) -> list[np.ndarray]:
    """JAX's gradients of the one number in the result; empty where a loop has none."""
    import jax

    def loss(*given: Any) -> Any:
        return jax.tree.leaves(function(*given))[0]

    try:
        return [*map(np.asarray, jax.jit(jax.grad(loss, argnums=floating))(*examples))]
    except ValueError as error:
        if "while_loop" in str(error):
            return []
        raise
