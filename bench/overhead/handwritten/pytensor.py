"""PyTensor by hand: `pytensor.function`, in one of its modes; NumPy arrays in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode

from overhead.handwritten import WIDTH, ByHand, chain, stacked
from xbackend.bring.lineage.given import from_graph


def compiled(mode: str, inputs: Sequence[Any], outputs: Any, updates: Any = None) -> ByHand:
    """A graph as a function in a mode."""
    modes: dict[str, Callable[[], Any]] = {
        "": lambda: None,
        "c": lambda: Mode(linker="cvm", optimizer="fast_run"),
        "jax": lambda: "JAX",
        "mlx": lambda: "MLX",
    }
    function = pytensor.function(list(inputs), outputs, mode=modes[mode](), updates=updates)
    return ByHand(function, np.array, _wait, (inputs, outputs))


def brought(written: ByHand, arrays: Sequence[np.ndarray]) -> Any:
    assert written.graph is not None
    inputs, outputs = written.graph
    return from_graph(outputs, dict(zip(inputs, arrays, strict=True)))


def _by_hand(mode: str, dtype: str, build: Callable[[Any, Any], Any]) -> ByHand:
    a, b = pt.matrix("a", dtype=dtype), pt.matrix("b", dtype=dtype)
    return compiled(mode, [a, b], build(a, b))


def _wait(result: Any) -> None:
    """In mode JAX the result may still be computed, in mode MLX it is when asked for; in the others it is there."""
    if "mlx.core" in sys.modules:
        sys.modules["mlx.core"].eval(result)
    elif "jax" in sys.modules:
        sys.modules["jax"].block_until_ready(result)


def product(mode: str, dtype: str) -> ByHand:
    return _by_hand(mode, dtype, lambda a, b: a @ b)


def sum_of_powers(mode: str, dtype: str, n: int) -> ByHand:
    return _by_hand(mode, dtype, lambda a, b: chain(a, n, pt.dot) + chain(b, n, pt.dot))


def loop(mode: str, dtype: str, steps: int) -> ByHand:
    """In mode JAX its users say how many steps: it takes numbers only."""

    def build(x: Any, b: Any) -> Any:
        carries = pytensor.scan(
            lambda row, carry, b: pt.tanh(pt.dot(carry, b) + row),
            sequences=[x],
            outputs_info=[pt.constant(np.zeros(WIDTH, dtype))],
            non_sequences=[b],
            return_updates=False,
            n_steps=steps if mode == "jax" else None,
        )
        return carries

    return _by_hand(mode, dtype, build)


def layers(mode: str, dtype: str, count: int) -> ByHand:
    return _by_hand(mode, dtype, lambda x, b: stacked(x, b, count, pt.tanh, lambda y: pt.mean(y, axis=0)))
