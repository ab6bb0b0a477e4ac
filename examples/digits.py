"""Real input: the digits that come with scikit-learn, by a linear classifier and by a network of two layers.

    xbackend train examples/digits.py:network --strategy one,mirrored --backends numpy,tensorflow,jax,pytensor
    python examples/digits.py [backend ...]

1 797 images of 8 x 8 grey values (UCI, Optical Recognition of Handwritten Digits); a quarter is held back. The program
prints the accuracy on these, the mean of three seeds, beside that of scikit-learn's own classifiers on the same rows
(`pip install scikit-learn`).
"""

import sys

import numpy as np

import xbackend as xb
from xbackend.training import SGD, Training, layers

SEEDS = (0, 1, 2)
TRAINED_WITH = 1347


def digits(rng):
    """Training rows and rows held back, in an order drawn from ``rng``."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(labels))
    parts = order[:TRAINED_WITH], order[TRAINED_WITH:]
    return tuple((images[part] / 16.0, labels[part].astype(np.int64)) for part in parts)


@xb.model(optimizer=SGD(0.5, momentum=0.9), batch=128, epochs=10)
def linear(weights, x, labels):
    """Multinomial logistic regression."""
    scores = layers.dense(x, weights["w"], weights["b"])
    return layers.cross_entropy(scores, labels), {"accuracy": layers.accuracy(scores, labels)}


@linear.weights
def _(rng):
    return {"w": np.zeros((64, 10)), "b": np.zeros(10)}


@xb.model(optimizer=SGD(0.5, momentum=0.9), batch=128, epochs=10)
def network(weights, x, labels):
    """A hidden layer of 64 units."""
    hidden = xb.tanh(layers.dense(x, weights["w"], weights["b"]))
    scores = layers.dense(hidden, weights["v"], weights["c"])
    return layers.cross_entropy(scores, labels), {"accuracy": layers.accuracy(scores, labels)}


@network.weights
def _(rng):
    shapes = {"w": (64, 64), "v": (64, 10)}
    drawn = {name: rng.normal(size=shape) / shape[0] ** 0.5 for name, shape in shapes.items()}
    return {**drawn, "b": np.zeros(64), "c": np.zeros(10)}


linear.data(digits)
network.data(digits)


def recognised(backend, model):
    """The accuracy on the rows held back after training, for each seed: compiled once, restarted with other weights."""
    training = Training(backend, model.loss, model.start(SEEDS[0]), model.optimizer)
    for seed in SEEDS:
        training.restart(model.start(seed))
        batches, held = model.batches(seed)
        yield training.fit(batches, epochs=model.epochs, test=held)[-1].test["accuracy"]


def theirs(model, seed):
    """The accuracy of scikit-learn's classifier."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    layered = MLPClassifier((64,), max_iter=500, random_state=seed)
    one = LogisticRegression(max_iter=1000) if model is linear else layered
    (x, labels), (held, others) = digits(np.random.default_rng([seed, 1]))
    return one.fit(x, labels).score(held, others)


def main(names):
    for model in linear, network:
        expected = np.mean([theirs(model, seed) for seed in SEEDS])
        for name in names:
            with xb.open(name) as backend:
                found = np.mean([*recognised(backend, model)])
            print(f"{model.name} on {name}: {found:.4f}, scikit-learn {expected:.4f}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["numpy"])
