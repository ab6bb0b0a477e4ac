"""P11: data parallel against model parallel against both together: the same weights after training.

    python examples/p11_data_and_model_parallel.py [backend ...]

One function has its layers on dev0 and dev1. Model parallel binds the two names to two devices. Data parallel
replicates the function; both names mean one device in each replica. Both together replicates it with two devices for
each replica. Two replicas get 6 and 5 of eleven rows, and the mean of their losses has these weights.
"""

import sys

import numpy as np
from p5_model_parallel import RATE, STEPS, data, weights

import xbackend as xb

DATA_PARALLEL = ({"dev0": "dev0", "dev1": "dev0"}, {"dev0": "dev1", "dev1": "dev1"})
BOTH = ({"dev0": "dev0", "dev1": "dev1"}, {"dev0": "dev2", "dev1": "dev3"})


def network(replicas):
    """The shared variables, on the default device, and a step of gradient descent, with replicas if given."""
    state = {name: xb.shared(value, name=name) for name, value in weights().items()}

    def loss_of(x, target):
        with xb.device("dev0"):
            hidden = xb.tanh(x @ state["w1"])
        with xb.device("dev1"):
            prediction = hidden @ state["w2"]
            return xb.mean(xb.square(prediction - target))

    if replicas:
        loss_of = xb.strategies.replicate(loss_of, devices=replicas, split=("x", "target"), merge="mean")

    def step(x, target):
        loss = loss_of(x, target)
        variables = list(state.values())
        for w, gradient in zip(variables, xb.grad(loss, variables), strict=True):
            xb.update(w, w - RATE * gradient)
        return loss

    return state, step


def train(backend, replicas, devices):
    """The loss of each step, the weights after the last one, and the devices on which ops executed."""
    arrays = data()
    state, step = network(replicas)
    run = backend.compile(step, *arrays, devices=devices)
    losses = [float(run(*arrays)) for _ in range(STEPS)]
    used = sorted({record.executed or record.bound for record in run.placement.ops})
    return losses, {name: backend.get_value(w) for name, w in state.items()}, used


def main(names):
    four = {f"dev{i}": f"cpu:{i}" for i in range(4)}
    one = dict.fromkeys(four, "cpu:0")
    ways = {
        "one device": (None, one),
        "data parallel": (DATA_PARALLEL, four),
        "model parallel": (None, four),
        "both": (BOTH, four),
    }
    for name in names:
        with xb.open(name, virtual_devices=4) as backend:
            found = {way: train(backend, replicas, devices) for way, (replicas, devices) in ways.items()}
        _, expected, _ = found["one device"]
        for way, (losses, state, used) in found.items():
            for key, value in state.items():
                np.testing.assert_allclose(value, expected[key], atol=1e-5)
            print(f"{name}: {way}: ops on {' '.join(used)}, losses {losses[0]:.5f} to {losses[-1]:.5f}")
        print(f"{name}: the weights agree")


if __name__ == "__main__":
    main(sys.argv[1:] or xb.backend_names())
