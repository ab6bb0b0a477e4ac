"""A step of training of a network with its two layers on two devices, and the loss on the CPU.

    hidden = tanh(x W1) on dev0,  loss = mean((hidden W2 - target)^2),  W -= rate dloss/dW

Source: the programs of model parallelism of TensorFlow's tutorials; ``examples/p5_model_parallel.py`` trains with it.
Size is hidden units: 8 is dispatch, 4096 arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

ROWS, IN, OUT, RATE = 256, 64, 16, 0.1


@xb.workload(sweep={"size": [8, 512, 4096]}, quick={"size": [512]})
def model_parallel(x: Any, target: Any, w1: Any, w2: Any) -> Any:
    """The loss and the new weights, from rows (256, 64), targets (256, 16) and weights (64, size), (size, 16)."""
    with xb.device("dev0"):
        hidden = xb.tanh(x @ w1)
    with xb.device("dev1"):
        prediction = hidden @ w2
    with xb.device("cpu:0"):
        loss = xb.mean(xb.square(prediction - target))
    first, second = xb.grad(loss, (w1, w2))
    return loss, w1 - RATE * first, w2 - RATE * second


@model_parallel.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float32") -> list[np.ndarray]:
    """Rows from -1 to 1, sines of their sums as targets, weights that keep the magnitude of activations."""
    x = rng.uniform(-1, 1, (ROWS, IN))
    target = np.sin(x.reshape(ROWS, OUT, -1).sum(axis=2))
    w1, w2 = (rng.uniform(-1, 1, shape) / shape[0] ** 0.5 for shape in ((IN, size), (size, OUT)))
    return [array.astype(dtype) for array in (x, target, w1, w2)]


def numbers(size: int) -> int:
    """How many numbers a call needs."""
    return ROWS * (IN + OUT) + size * (ROWS + IN + OUT)


check_drawn(model_parallel, numbers)
