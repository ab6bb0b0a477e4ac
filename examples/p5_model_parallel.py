"""P5: two parts of a model on two devices, merged on the CPU, trained.

    python examples/p5_model_parallel.py [backend ...]

Layer 1 and its weights are on dev0, layer 2 and its weights on dev1, the loss on the CPU. Gradients run on the devices
of the forward ops. Losses and trained weights equal those of the same program on one device, to rounding.
"""

import sys

import numpy as np

import xbackend as xb

RATE = np.float32(0.1)
STEPS = 20


def data(rows=11, seed=0):
    """Rows of four numbers, and their targets: the sines of two sums."""
    x = np.random.default_rng(seed).uniform(-1, 1, (rows, 4)).astype(np.float32)
    return x, np.sin(x[:, :2] + x[:, 2:])


def weights(seed=1):
    """Initial weights of a network with 4 inputs, 8 hidden units and 2 outputs."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-0.5, 0.5, shape).astype(np.float32) for name, shape in (("w1", (4, 8)), ("w2", (8, 2)))}


def network():
    """The shared variables, each on the device of its layer, and a step of gradient descent."""
    places = {"w1": "dev0", "w2": "dev1"}
    state = {name: xb.shared(value, name=name, device=places[name]) for name, value in weights().items()}

    def step(x, target):
        with xb.device("dev0"):
            hidden = xb.tanh(x @ state["w1"])
        with xb.device("dev1"):
            prediction = hidden @ state["w2"]
        with xb.device("cpu:0"):
            loss = xb.mean(xb.square(prediction - target))
        variables = list(state.values())
        for w, gradient in zip(variables, xb.grad(loss, variables), strict=True):
            xb.update(w, w - RATE * gradient)
        return loss

    return state, step


def train(backend, devices):
    """The loss of each step, and the weights after the last one."""
    arrays = data()
    state, step = network()
    run = backend.compile(step, *arrays, devices=devices)
    losses = [float(run(*arrays)) for _ in range(STEPS)]
    return losses, {name: backend.get_value(w) for name, w in state.items()}


def main(names):
    for name in names:
        with xb.open(name, virtual_devices=3) as backend:
            one, expected = train(backend, {"dev0": "cpu:0", "dev1": "cpu:0"})
            two, found = train(backend, {"dev0": "cpu:1", "dev1": "cpu:2"})
        print(f"{name}: losses {' '.join(f'{loss:.5f}' for loss in two)}")
        for key, value in found.items():
            np.testing.assert_allclose(value, expected[key], atol=1e-5)
        np.testing.assert_allclose(two, one, atol=1e-5)
        print(f"{name}: one device and two agree")


if __name__ == "__main__":
    main(sys.argv[1:] or xb.backend_names())
