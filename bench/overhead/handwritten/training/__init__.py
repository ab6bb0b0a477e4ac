"""A step of training as users of each framework write it: one module for each environment.

``step(mode, dtype, weights)`` is SGD with momentum (`RATE`, `MOMENTUM`) of a classifier with one hidden layer: of rows
and labels, the loss; the weights and their velocities are updated, as each framework has state.

``spread(weights, count)`` is the same on so many devices by the framework's own strategy: a `Spread`.
``fitted(weights, x, labels, batch)`` is the same by the framework's own loop over epochs: a `Fitted`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

SPREAD = ("tensorflow", "jax")  # whose framework has strategies of its own: tf.distribute, shard_map
FITTED = ("tensorflow",)  # with Keras
# Exact in float32, in which Keras has rates whatever the weights' dtype: 0.05 makes a difference of 1.3e-7.
RATE, MOMENTUM = 0.0625, 0.875


@dataclass(frozen=True, slots=True)
class Spread:
    """A step under a framework's own strategy: ``call`` takes the values that ``place`` makes of rows and labels,
    ``wait`` returns when a result is computed, ``weights`` are the current ones."""

    call: Callable[..., Any]
    place: Callable[[np.ndarray, np.ndarray], tuple[Any, ...]]
    wait: Callable[[Any], object]
    weights: Callable[[], Mapping[str, np.ndarray]]


@dataclass(frozen=True, slots=True)
class Fitted:
    """Training by a framework's own loop: ``call`` trains so many epochs, ``weights`` are the current ones."""

    call: Callable[[int], None]
    weights: Callable[[], Mapping[str, np.ndarray]]
