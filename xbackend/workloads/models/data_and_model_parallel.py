"""A step of training, data and model parallel at once: two replicas with half of the rows and two devices each.

    hidden = tanh(x W1) on dev0 or dev2,  loss = mean((hidden W2 - target)^2) on dev1 or dev3,  W -= rate dloss/dW

Source: the programs of towers of TensorFlow's tutorials; ``examples/p11_data_and_model_parallel.py`` trains with it.
Size is hidden units: 8 is dispatch, 4096 arithmetic.
"""

from __future__ import annotations

from typing import Any

import xbackend as xb
from xbackend.workloads.models.model_parallel import RATE, inputs, numbers
from xbackend.workloads.workload import check_drawn

REPLICAS = ({"dev0": "dev0", "dev1": "dev1"}, {"dev0": "dev2", "dev1": "dev3"})


def _loss(x: Any, target: Any, w1: Any, w2: Any) -> Any:
    with xb.device("dev0"):
        hidden = xb.tanh(x @ w1)
    with xb.device("dev1"):
        return xb.mean(xb.square(hidden @ w2 - target))


@xb.workload(sweep={"size": [8, 512, 4096]}, quick={"size": [512]})
def data_and_model_parallel(x: Any, target: Any, w1: Any, w2: Any) -> Any:
    """The loss and the new weights, from rows (256, 64), targets (256, 16) and weights (64, size), (size, 16)."""
    spread = xb.strategies.replicate(_loss, devices=REPLICAS, split=("x", "target"), merge="mean")
    loss = spread(x, target, w1, w2)
    first, second = xb.grad(loss, (w1, w2))
    return loss, w1 - RATE * first, w2 - RATE * second


data_and_model_parallel.inputs(inputs)
check_drawn(data_and_model_parallel, numbers)
