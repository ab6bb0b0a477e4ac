"""A step of training in TensorFlow: variables, a `GradientTape`, assignments, in a `tf.function`; and by Keras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from overhead.handwritten import ByHand
from overhead.handwritten.tensorflow import by_hand
from overhead.handwritten.training import MOMENTUM, RATE


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
