"""A step of training in TensorFlow: variables, a `GradientTape`, assignments, in a `tf.function`; and by Keras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from overhead.handwritten import ByHand
from overhead.handwritten.tensorflow import _wait, by_hand
from overhead.handwritten.training import MOMENTUM, RATE, Spread


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


def mirrored(weights: Mapping[str, np.ndarray], count: int) -> Spread:
    """The same under `tf.distribute.MirroredStrategy`, with Keras's optimiser, as its guide has a custom step
    (https://www.tensorflow.org/tutorials/distribute/custom_training): losses over the whole batch, and their sum."""
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(count)])
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
        def split(array: np.ndarray) -> Any:
            parts = [tf.constant(part) for part in np.array_split(array, count)]
            made = strategy.experimental_distribute_values_from_function
            return made(lambda context: parts[context.replica_id_in_sync_group])

        return split(x), split(labels), tf.constant(len(x))

    return Spread(run, place, _wait, lambda: {name: value.numpy() for name, value in variables.items()})
