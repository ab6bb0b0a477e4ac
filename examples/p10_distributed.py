"""P10: a classifier trained by several processes, in two ways.

Either every worker has the weights and its share of the rows, and gradients are averaged between workers. Or the
weights are on a parameter server: every worker reads them there and sends its update.

xbackend cluster run examples/p10_distributed.py:mirrored --backend pytensor-jax --workers 2
xbackend cluster run examples/p10_distributed.py:served --backend tensorflow --workers 2 --ps 1 --asynchronous --replay
"""

import numpy as np

import xbackend as xb

ROWS, FEATURES, CLASSES, BATCH = 301, 20, 4, 63  # rows do not divide into batches, nor a batch into workers


def _data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES))
    labels = np.argmax(x @ rng.normal(size=(FEATURES, CLASSES)), axis=1)
    return x, labels


X, LABELS = _data()


def _share(task, number):
    """A task's rows of the batch of a step; the last batch of an epoch is smaller."""
    batches = -(-ROWS // BATCH)
    begin = number % batches * BATCH
    rows = min(BATCH, ROWS - begin)
    own = task.share(rows)
    own = slice(begin + own.start, begin + own.stop)
    return X[own], LABELS[own]


def _loss(w, b, x, labels):
    return xb.training.layers.cross_entropy(x @ w + b, labels)


@xb.job(steps=100)
def mirrored(task, x, labels):
    """Each worker keeps the weights and their momentum; gradients are averaged over all rows of all workers."""
    w, b = xb.shared(np.zeros((FEATURES, CLASSES)), "w"), xb.shared(np.zeros(CLASSES), "b")
    loss = _loss(w, b, x, labels)
    rows = [x.shape[0]]
    for variable in (w, b):
        velocity = xb.shared(np.zeros(variable.shape), f"{variable.name}_velocity")
        (gradient,) = xb.all_reduce([xb.grad(loss, variable)], weights=rows, across=task)
        moved = 0.9 * velocity + gradient
        xb.update(velocity, moved)
        xb.update(variable, variable - 0.1 * moved)
    return xb.all_reduce([loss], weights=rows, across=task)[0]


mirrored.data(_share)


@xb.job(steps=100)
def served(task, x, labels):
    """The weights and their momentum are on the parameter server, which adds each worker's update."""
    server = "/job:ps/task:0"
    w, b = xb.shared(np.zeros((FEATURES, CLASSES)), "w", server), xb.shared(np.zeros(CLASSES), "b", server)
    loss = _loss(w, b, x, labels)
    for variable in (w, b):
        velocity = xb.shared(np.zeros(variable.shape), f"{variable.name}_velocity", server)
        moved = 0.9 * velocity + xb.grad(loss, variable) / task.count
        xb.update(velocity, moved)
        xb.update(variable, variable - 0.1 * moved)
    return loss


served.data(_share)
