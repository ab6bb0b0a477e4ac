"""A network that fills a GPU, and the same one small: they learn the largest of several sums of what they see.

xbackend train examples/wide_network.py:wide --strategy one,mirrored --backends jax,tensorflow
"""

import numpy as np

import xbackend as xb
from xbackend.training import SGD, layers

INPUTS, CLASSES = 512, 16


def network(weights, x, labels):
    """Two hidden layers."""
    hidden = xb.tanh(layers.dense(x, weights["w"], weights["b"]))
    hidden = xb.tanh(layers.dense(hidden, weights["v"], weights["c"]))
    scores = layers.dense(hidden, weights["u"])
    return layers.cross_entropy(scores, labels), {"accuracy": layers.accuracy(scores, labels)}


def made(units, rows):
    """The functions that draw weights with so many hidden units, and so many rows with the class of each; an eighth
    more are held back."""

    def weights(rng):
        shapes = {"w": (INPUTS, units), "v": (units, units), "u": (units, CLASSES)}
        drawn = {name: rng.normal(size=shape) / shape[0] ** 0.5 for name, shape in shapes.items()}
        return {n: a.astype(np.float32) for n, a in {**drawn, "b": np.zeros(units), "c": np.zeros(units)}.items()}

    def data(rng):
        x = rng.normal(size=(rows + rows // 8, INPUTS)).astype(np.float32)
        labels = np.argmax(x @ rng.normal(size=(INPUTS, CLASSES)), axis=1)
        return (x[:rows], labels[:rows]), (x[rows:], labels[rows:])

    return weights, data


@xb.model(optimizer=SGD(0.002, momentum=0.9), batch=4096, epochs=10)  # a larger rate would not be stable
def wide(weights, x, labels):
    """4096 hidden units in either layer: 0.5 TFLOP a step."""
    return network(weights, x, labels)


@xb.model(optimizer=SGD(0.1, momentum=0.9), batch=64, epochs=2)
def narrow(weights, x, labels):
    """32 hidden units in either layer."""
    return network(weights, x, labels)


for model, units, rows in ((wide, 4096, 32768), (narrow, 32, 256)):
    weights, data = made(units, rows)
    model.weights(weights)
    model.data(data)
