"""Graphs of TensorFlow at the edges of what comes in. `test_bring_tensorflow_edges` runs this script in an environment
of TensorFlow. It writes for each graph what `tensorflow_graphs` writes, or the error, also one that is no `GraphError`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")

import numpy as np
import tensorflow as tf
from bring_helpers import Brought, weights_of, write
from tensorflow.python.framework import function as old_function

from xbackend.bring.tensorflow.found import brought
from xbackend.bring.tensorflow.given import from_graph_def, from_tensorflow

tf1 = tf.compat.v1
R = np.random.default_rng(5)
V, A = R.normal(size=4), R.normal(size=(3, 4))
V32 = V.astype(np.float32)
CASES: dict[str, Callable[[], Brought]] = {}


def case(make: Callable[[], Brought]) -> Callable[[], Brought]:
    CASES[make.__name__] = make
    return make


def own(found: Any, *arrays: Any, name: str = "found") -> Brought:
    """What the command brings of an object: the program, and TensorFlow's own results and gradients."""
    origin = brought(found, [np.asarray(one) for one in arrays], name, np.random.default_rng(0))
    results, slopes = list(origin.results), list(origin.slopes)
    weights = [np.ones((), one.dtype) if slopes else None for one in results]
    names = [origin.program.values[i].params["name"] for i in origin.program.inputs]
    of = [names.index(one) for one in origin.gradient][: len(slopes)]
    return Brought(origin.program.to_json(), list(origin.inputs), results, weights, slopes, of)


def traced(function: Callable[..., Any], *arrays: Any, **options: Any) -> Brought:
    """The program of a function without a gradient, and TensorFlow's results."""
    program = from_tensorflow(function, *arrays, **options).to_json()
    results = [one.numpy() for one in tf.nest.flatten(tf.function(function)(*map(tf.constant, arrays)))]
    return Brought(program, list(arrays), results, weights_of(results), [], [])


def graph(fetches: list[str], feeds: dict[str, Any], **options: Any) -> Brought:
    """The program of the default graph of TensorFlow 1, and a session's results."""
    with tf1.Session(config=tf1.ConfigProto(allow_soft_placement=True)) as running:
        running.run(tf1.global_variables_initializer())
        results = running.run(fetches, {f"{n}:0" if ":" not in n else n: one for n, one in feeds.items()})
    definition = tf1.get_default_graph().as_graph_def()
    program = from_graph_def(definition.SerializeToString(), fetches, feeds, **options).to_json()
    kept = [np.asarray(one) for one in results if one is not None]
    return Brought(program, list(feeds.values()), kept, weights_of(kept), [], [])


def in_graph(make: Callable[[], Brought]) -> Callable[[], Brought]:
    """A case in a graph of TensorFlow 1 of its own."""

    def inside() -> Brought:
        with tf1.Graph().as_default():
            return make()

    inside.__name__ = make.__name__
    return case(inside)


# TensorFlow's own gradients


@case
def sparse_gradient() -> Brought:
    return own(tf.function(lambda x: tf.reduce_sum(tf.gather(x, [0, 2]))), V)


@in_graph
def sparse_gradient_of_a_session() -> Brought:
    x = tf1.placeholder(tf.float64, [4], "x")
    return own(tf.reduce_sum(tf.gather(x, [0, 2])), V)


@case
def no_gradient() -> Brought:
    return own(tf.function(lambda x: tf.reduce_sum(tf.truncatemod(x, 2.0))), V)


@case
def no_gradient_of_a_plain_function() -> Brought:
    return own(lambda x: tf.reduce_sum(tf.truncatemod(x, 2.0)), V)


@in_graph
def no_gradient_of_a_session() -> Brought:
    x = tf1.placeholder(tf.float64, [4], "x")
    return own(tf.reduce_sum(tf.truncatemod(x, 2.0)), V)


@case
def signature() -> Brought:
    module = tf.Module()
    spec = tf.TensorSpec([4], tf.float64)
    module.f = tf.function(lambda b, a: tf.reduce_sum(b * b * a), input_signature=[spec, spec])
    folder = Path(sys.argv[1]) / "signature"
    tf.saved_model.save(module, str(folder), signatures=module.f)
    loaded = tf.saved_model.load(str(folder))
    return own(loaded.signatures["serving_default"], V, V + 1.0)


def main(folder: Path) -> None:
    for name, make in dict(CASES).items():
        try:
            write(folder, name, make())
        except Exception as error:
            write(folder, name, Brought("", [], [], [], [], [], f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
