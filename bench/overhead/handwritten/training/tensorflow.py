"""A step of training in TensorFlow: variables, a `GradientTape`, assignments, in a `tf.function`; and by Keras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from overhead.handwritten import ByHand
from overhead.handwritten.tensorflow import _wait, by_hand
from overhead.handwritten.training import MOMENTUM, RATE, Fitted, Spread


def step(mode: str, dtype: str, weights: Mapping[str, np.ndarray]) -> ByHand:
    """SGD with momentum of a classifier with one hidden layer."""
    variables = {name: tf.Variable(value) for name, value in weights.items()}
    velocities = {name: tf.Variable(tf.zeros_like(value)) for name, value in weights.items()}

    def run(x: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x @ variables["w"] + variables["b"])
            scores = hidden @ variables["v"] + variables["c"]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, variables)
        for name, variable in variables.items():
            velocities[name].assign(gradients[name] + MOMENTUM * velocities[name])
            variable.assign_sub(RATE * velocities[name])
        return loss

    return by_hand(mode, run)


def spread(weights: Mapping[str, np.ndarray], count: int) -> Spread:
    """The same under `tf.distribute.MirroredStrategy`, on one device under `OneDeviceStrategy`, with Keras's optimiser,
    as its guide has a custom step (https://www.tensorflow.org/tutorials/distribute/custom_training): a distributed data
    set, losses over the whole batch, and their sum."""
    names = [f"CPU:{i}" for i in range(count)]
    strategy = tf.distribute.MirroredStrategy(names) if count > 1 else tf.distribute.OneDeviceStrategy(names[0])
    with strategy.scope():
        variables = {name: tf.Variable(value) for name, value in weights.items()}
        optimizer = tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM)
        optimizer.build(list(variables.values()))

    def part(x: Any, labels: Any, rows: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x @ variables["w"] + variables["b"])
            scores = hidden @ variables["v"] + variables["c"]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
            loss = tf.reduce_sum(losses) / tf.cast(rows, losses.dtype)
        gradients = tape.gradient(loss, list(variables.values()))
        optimizer.apply_gradients(zip(gradients, variables.values(), strict=True))
        return loss

    @tf.function
    def run(x: Any, labels: Any, rows: Any) -> Any:
        losses = strategy.run(part, args=(x, labels, rows))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def place(x: np.ndarray, labels: np.ndarray) -> tuple[Any, ...]:
        data = tf.data.Dataset.from_tensor_slices((x, labels)).batch(len(x))
        return (*next(iter(strategy.experimental_distribute_dataset(data))), tf.constant(len(x)))

    return Spread(run, place, _wait, lambda: {name: value.numpy() for name, value in variables.items()})


def fitted(weights: Mapping[str, np.ndarray], x: np.ndarray, labels: np.ndarray, batch: int) -> Fitted:
    """The same by Keras's ``fit``, rows in order."""
    (inputs, hidden), (_, classes) = weights["w"].shape, weights["v"].shape
    model = tf.keras.Sequential(
        [tf.keras.Input((inputs,)), tf.keras.layers.Dense(hidden, "tanh"), tf.keras.layers.Dense(classes)]
    )
    model.compile(
        tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    names = ("w", "b", "v", "c")
    model.set_weights([weights[name] for name in names])

    def call(epochs: int) -> None:
        model.fit(x, labels, batch_size=batch, epochs=epochs, shuffle=False, verbose=0)

    return Fitted(call, lambda: dict(zip(names, model.get_weights(), strict=True)))
