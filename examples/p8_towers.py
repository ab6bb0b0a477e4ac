"""P8: towers: a gradient on each device, averaged on the CPU, applied once; two scopes, a saver, event files.

    python examples/p8_towers.py [backend ...]
    xbackend compare examples/p8_towers.py --set strategy=one,towers,mirrored --devices 1,2

A small classifier. Each tower is fed its own batch. The losses of the towers are under tower_0/ and tower_1/, beside
that of all rows. The weights are those of one device on the whole batch, to rounding. Half-way it is saved, and another
training goes on from the checkpoint. The event files have two scopes, training points and other points.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import xbackend as xb
from xbackend.training import SGD, Batches, Events, Training, checkpoints, layers

EPOCHS = 4
ROWS = 12  # of a tower's batch


def data(rows, seed):
    """Points of three classes, by the third of the circle that they are in."""
    x = np.random.default_rng(seed).normal(size=(rows, 2))
    return x, np.floor((np.arctan2(x[:, 1], x[:, 0]) / np.pi + 1) * 1.4999).astype(np.int64)


def weights(seed=1):
    rng = np.random.default_rng(seed)
    return {"w": rng.normal(size=(2, 16)), "b": np.zeros(16), "v": rng.normal(size=(16, 3)) / 4}


@xb.model(optimizer=SGD(0.5, momentum=0.9), batch=2 * ROWS, epochs=EPOCHS)
def classifier(w, x, labels):
    """The loss, and the accuracy."""
    scores = xb.tanh(layers.dense(x, w["w"], w["b"])) @ w["v"]
    return layers.cross_entropy(scores, labels), {"accuracy": layers.accuracy(scores, labels)}


classifier.weights(lambda rng: weights())
classifier.data(lambda rng: (data(96, seed=2), data(60, seed=3)))


def model(backend, strategy, fed=False):
    devices = {"dev0": "cpu:0", "dev1": "cpu:1", "dev2": "cpu:2"}
    return Training(backend, classifier, weights(), classifier.optimizer, strategy=strategy, devices=devices, fed=fed)


def train(training, batches, epochs, towers, events=None):
    """Train for epochs of batches. Each batch is split for several towers."""
    while batches.epoch < epochs:
        for batch in batches:
            parts = [array[i::towers] for i in range(towers) for array in batch]
            found = training.step(*parts)
            if events is not None:
                events.scalars(training.steps, found)
    return found


def main(names):
    x, labels = data(96, seed=2)
    held = data(60, seed=3)
    for name in names:
        with xb.open(name, virtual_devices=3) as backend, tempfile.TemporaryDirectory() as folder:

            def order():
                return Batches(x, labels, size=2 * ROWS, seed=4)

            one = model(backend, xb.strategies.OneDevice("dev0"))
            train(one, order(), EPOCHS, 1)

            towers = model(backend, xb.strategies.Towers(("dev1", "dev2"), on="dev0"), fed=True)
            batches = order()
            with Events(Path(folder), "train") as train_scope, Events(Path(folder), "test") as test_scope:
                train(towers, batches, EPOCHS // 2, 2, train_scope)
                saved = towers.save(Path(folder), batches)
                resumed, rest = model(backend, xb.strategies.Towers(("dev1", "dev2"), on="dev0"), fed=True), order()
                resumed.restore(checkpoints.read(saved), rest)
                found = train(resumed, rest, EPOCHS, 2, train_scope)
                test = resumed.evaluate(*held)
                test_scope.scalars(resumed.steps, test)
            first, second, loss = (found[key] for key in ("tower_0/loss", "tower_1/loss", "loss"))
            print(f"{name}: tower losses {first:.4f} and {second:.4f}, loss {loss:.4f}")
            print(f"{name}: after {resumed.steps} steps, accuracy {test['accuracy']:.3f} on {len(held[0])} others")
            for key, value in resumed.weights().items():
                np.testing.assert_allclose(value, one.weights()[key], rtol=1e-9, atol=1e-12)
            print(f"{name}: the weights are those of one device")


if __name__ == "__main__":
    main(sys.argv[1:] or xb.backend_names())
