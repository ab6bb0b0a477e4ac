"""P9: limited visible devices; one device and mirrored; a custom step with its reduction; validation accuracy.

    python examples/p9_mirrored.py [backend ...]
    xbackend train examples/p9_mirrored.py:classifier --strategy one,mirrored

Two of four devices are visible. Every variable is on both. Gradients are all-reduced to their mean, and both copies are
updated and stay equal to the bit. The tutorial's sample sums what it calls the average, twice too much on two devices:
both are shown.
"""

import sys

import numpy as np
from p8_towers import classifier, data, weights

import xbackend as xb
from xbackend.training import SGD, Batches, Training

EPOCHS = 4


def reduction(backend):
    """The mean and the sum of two replicas' gradients: 'average' must not mean the sum."""

    def function(x):
        with xb.device("cpu:0"):
            first = xb.sum(x * 1.0)
        with xb.device("cpu:1"):
            second = xb.sum(x * 3.0)
        mean, total = xb.all_reduce([first, second], "mean"), xb.all_reduce([first, second], "sum")
        return mean[0], total[0]

    x = np.ones(4)
    return [float(value) for value in backend.compile(function, x)(x)]


def main(names):
    x, labels = data(96, seed=2)
    held = data(60, seed=3)
    for name in names:
        with xb.open(name, virtual_devices=4, visible=("cpu:0", "cpu:1")) as backend:
            print(f"{name}: visible {', '.join(map(str, backend.devices))}")
            mean, total = reduction(backend)
            print(f"{name}: mean {mean:.1f}, sum {total:.1f}")
            ends = []
            for strategy in (xb.strategies.OneDevice("cpu:0"), xb.strategies.Mirrored(("cpu:0", "cpu:1"))):
                training = Training(backend, classifier, weights(), SGD(0.5, momentum=0.9), strategy=strategy)
                epochs = training.fit(Batches(x, labels, size=25, seed=4), epochs=EPOCHS, test=[held])
                training.check_copies()
                ends.append(training.weights())
            print(f"{name}: loss {epochs[-1].train['loss']:.4f}, validation accuracy {epochs[-1].test['accuracy']:.3f}")
            for key, value in ends[1].items():
                np.testing.assert_allclose(value, ends[0][key], rtol=1e-9, atol=1e-12)
            print(f"{name}: the weights are those of one device")


if __name__ == "__main__":
    main(sys.argv[1:] or xb.backend_names())
