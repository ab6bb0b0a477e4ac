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
    assert all(one.dtype != object for one in (*results, *slopes))
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


@in_graph
def no_gradient_of_an_old_function() -> Brought:
    @old_function.Defun(tf.float64)
    def old(x: Any) -> Any:
        return tf.nn.softplus(x)

    x = tf1.placeholder(tf.float64, [], "x")
    return own(tf.reshape(old(x), []), 0.5)


@case
def signature() -> Brought:
    module = tf.Module()
    spec = tf.TensorSpec([4], tf.float64)
    module.f = tf.function(lambda b, a: tf.reduce_sum(b * b * a), input_signature=[spec, spec])
    folder = Path(sys.argv[1]) / "signature"
    tf.saved_model.save(module, str(folder), signatures=module.f)
    loaded = tf.saved_model.load(str(folder))
    return own(loaded.signatures["serving_default"], V, V + 1.0)


# What is fed


def _parts() -> None:
    x = tf1.placeholder(tf.float64, [4], "x")
    p = tf.split(x, 2, name="p")
    tf.identity(p[0] + 2.0 * p[1], name="y")


@in_graph
def second_result_fed() -> Brought:
    _parts()
    return graph(["y:0"], {"x": V, "p:1": V[:2] + 7.0})


@in_graph
def first_result_fed() -> Brought:
    _parts()
    return graph(["y:0"], {"x": V, "p:0": V[:2] + 7.0})


def _begin(kind: Any) -> None:
    x = tf1.placeholder(tf.float64, [3, 4], "x")
    i = (
        tf1.get_variable("i", initializer=1, use_resource=False)
        if kind == "variable"
        else tf1.placeholder(tf.int32, [])
    )
    i = tf.identity(i, name="i_read") if kind != "variable" else i._ref()
    begin = tf.stack([i, 0], name="begin")
    tf.slice(x, begin, [2, 2], name="y")
    tf.identity(i, name="z")


@in_graph
def begin_fed() -> Brought:
    _begin("placeholder")
    return graph(["y:0"], {"x": A, "begin": np.array([1, 0], np.int32)})


@in_graph
def begin_fed_after_its_parts() -> Brought:
    _begin("placeholder")
    name = tf1.get_default_graph().get_operation_by_name("i_read").inputs[0].op.name
    return graph(["z:0", "y:0"], {"x": A, name: np.int32(0), "begin": np.array([1, 0], np.int32)})


@in_graph
def begin_of_a_reference() -> Brought:
    _begin("variable")
    return graph(["y:0"], {"x": A})


# Variables


def _one_name() -> None:
    spec = {"shape": [2], "dtype": tf.float32, "shared_name": "s"}
    a, b = (tf.raw_ops.VariableV2(name=name, **spec) for name in "ab")
    tf1.assign(a, [1.0, 2.0], name="a/Assign"), tf1.assign(b, [1.0, 2.0], name="b/Assign")
    tf.add(a, b, name="y")


def _first(**values: Any) -> Brought:
    _one_name()
    program = from_graph_def(tf1.get_default_graph(), "y", variables=values).to_json()
    return Brought(program, [], [np.array([6.0, 8.0], np.float32)], [None], [], [])


@in_graph
def second_of_one_name() -> Brought:
    return _first(b=np.array([3.0, 4.0], np.float32))


@in_graph
def several_of_one_name() -> Brought:
    return _first(a=np.ones(2, np.float32), b=np.array([3.0, 4.0], np.float32))


@in_graph
def first_as_list() -> Brought:
    return _first(a=[3.0, 4.0])


@in_graph
def first_of_other_dtype() -> Brought:
    return _first(a=np.array([3.0, 4.0]))


@in_graph
def first_of_other_shape() -> Brought:
    return _first(a=[3.0, 4.0, 5.0])


@in_graph
def drawn_first() -> Brought:
    tf.identity(tf1.get_variable("v", [2], use_resource=False) * 2.0, name="out")
    return Brought(from_graph_def(tf1.get_default_graph(), "out").to_json(), [], [], [], [], [])


@in_graph
def large_first() -> Brought:
    w = tf1.get_variable("w", [300, 300], initializer=tf1.constant_initializer(0.1), use_resource=False)
    x = tf1.placeholder(tf.float32, [], "x")
    loss = tf.reduce_sum(w * x, name="loss")
    tf1.train.AdagradOptimizer(0.1).minimize(loss, name="train")
    return graph(["loss:0", "train"], {"x": np.float32(2.0)})


# Constants and ranges


def _constant(numbers: list[float]) -> Brought:
    const = tf.constant(0.0, tf.float32, [300, 300])
    definition = const.graph.as_graph_def()
    (node,) = definition.node
    said = node.attr["value"].tensor
    del said.float_val[:]
    said.float_val.extend(numbers)
    right = tf.make_ndarray(said)
    program = from_graph_def(definition, node.name).to_json()
    return Brought(program, [], [right], [None], [], [])


@in_graph
def constant_of_zeros() -> Brought:
    return _constant([])


@in_graph
def constant_with_a_tail() -> Brought:
    return _constant([1.0, 2.0, 3.0])


@case
def long_range() -> Brought:
    found = traced(lambda x: tf.range(0.0, 70000.0, 0.7) + x, np.float32(1.0))
    right = 1.0 + np.arange(100_000, dtype=np.float32) * np.float32(
        0.7
    )  # TensorFlow's CPU sums the steps up, GPUs do not
    return Brought(found.program, found.inputs, [right], [None], [], [])


@case
def far_divided() -> Brought:
    x, y = np.array([1e-310, 0.0, 0.3, 1.0 / 3.0]), np.array([1e-310, 0.0, 0.7, 3.0])
    right = np.array([1.0, 0.0, 0.3 / 0.7, 1.0 / 3.0 / 3.0])
    return Brought(from_tensorflow(tf.math.xdivy, x, y).to_json(), [x, y], [right], [None], [], [])


@case
def large_diagonal() -> Brought:
    spec = tf.TensorSpec([None], tf.float64)
    function = tf.function(lambda x: tf.linalg.diag(tf.range(tf.shape(x)[0]))[1, :3], input_signature=[spec])
    x = np.zeros(60_000)
    return Brought(from_tensorflow(function, x).to_json(), [], [], [], [], [])


# Functions of TensorFlow 1


def _assigning(reached: bool) -> Any:
    """A function that assigns a variable, as a control input of its result or not."""

    @old_function.Defun(tf.resource, tf.float32)
    def old(handle: Any, x: Any) -> Any:
        made = tf.raw_ops.AssignVariableOp(resource=handle, value=x)
        with tf.control_dependencies([made] if reached else []):
            return x * 2.0

    return old


def _variable() -> Any:
    v = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], name="v", shared_name="v")
    tf.raw_ops.AssignVariableOp(resource=v, value=0.0, name="v/Assign")
    return v


def _twice(make: Callable[[Any, Any], Any]) -> Brought:
    """The results of a call, and the variable behind it."""
    x, v = tf1.placeholder(tf.float32, [], "x"), _variable()
    y = tf.identity(make(v, x), name="y")
    with tf.control_dependencies([y]):
        tf.raw_ops.ReadVariableOp(resource=v, dtype=tf.float32, name="after")
    program = from_graph_def(tf1.get_default_graph().as_graph_def(), ["y", "after"], {"x": np.float32(3.0)}).to_json()
    with tf1.Session() as running:
        running.run("v/Assign")
        results = running.run(["y:0", "after:0"], {"x:0": 3.0})
    return Brought(program, [np.float32(3.0)], [np.asarray(one) for one in results], [None, None], [], [])


@in_graph
def old_call_that_assigns() -> Brought:
    return _twice(_assigning(reached=False))


@in_graph
def old_call_in_a_branch() -> Brought:
    old = _assigning(reached=True)
    tf1.enable_control_flow_v2()
    return _twice(lambda v, x: tf.cond(x > 0.0, lambda: old(v, x), lambda: x))


@in_graph
def old_call_in_a_loop_on_two_devices() -> Brought:
    @old_function.Defun(tf.float32)
    def old(x: Any) -> Any:
        with tf.device("/gpu:1"):
            return tf.sin(x)

    tf1.enable_control_flow_v2()
    x = tf1.placeholder(tf.float32, [], "x")

    def step(a: Any) -> Any:
        with tf.device("/gpu:0"):
            a = tf.cos(a)
        return tf.ensure_shape(old(a), [])

    tf.identity(tf1.while_loop(lambda a: a < 9.0, step, [x]), name="y")
    return Brought(from_graph_def(tf1.get_default_graph(), "y", {"x": np.float32(0.5)}).to_json(), [], [], [], [], [])


def _derived(**gradient: Any) -> Brought:
    @old_function.Defun(tf.float32, func_name="derived", **gradient)
    def derived(x: Any) -> Any:
        return x * x

    tf.identity(derived(tf1.placeholder(tf.float32, [], "x")), name="y")
    given = tf1.get_default_graph()
    given = given if "python_grad_func" in gradient else given.as_graph_def()
    return Brought(from_graph_def(given, "y", {"x": np.float32(0.5)}).to_json(), [], [], [], [], [])


@in_graph
def gradient_of_a_function() -> Brought:
    return _derived(grad_func=old_function.Defun(tf.float32, tf.float32)(lambda x, dy: dy * 5.0))


@in_graph
def gradient_in_python() -> Brought:
    return _derived(python_grad_func=lambda op, dy: dy * 5.0)


@in_graph
def gradient_of_a_branch() -> Brought:
    """A scalar, a branch of which calls a function. TensorFlow has its gradient only where the function was traced."""
    tf1.enable_control_flow_v2()
    x = tf1.placeholder(tf.float64, [], "x")
    tf.identity(tf.cond(x > 0.0, lambda: tf.function(tf.nn.softplus)(x), lambda: x), name="y")
    path = Path(sys.argv[1]) / "branch.pb"
    text = tf1.get_default_graph().as_graph_def().SerializeToString()
    path.write_bytes(text.replace(b"PartitionedCall-", b"PartitionedCall_"))  # as in a process that traced nothing
    return own(path, 3.0, name="y")


# Devices and lines


@case
def constant_elsewhere() -> Brought:
    def function(x: Any) -> Any:
        for _ in tf.range(2):
            with tf.device("/cpu:0"):
                by = tf.constant([1.0, 2.0, 3.0, 4.0], tf.float64)
            with tf.device("/gpu:0"):
                x = tf.sin(x) * by
        return x

    return traced(function, V)


@case
def lines_of_a_loop() -> Brought:
    def going(i: Any, a: Any) -> Any:
        return i < 3

    def step(i: Any, a: Any) -> Any:
        return i + 1, tf.sin(a)

    def function(x: Any) -> Any:
        return tf.while_loop(going, step, [0, x])

    return traced(function, V)


# Labels and indices


@case
def label_of_no_class() -> Brought:
    labels = tf.one_hot([0, -1], 4, dtype=tf.float64)
    return traced(lambda x: tf.nn.softmax_cross_entropy_with_logits(labels, tf.stack([x, x])), V)


@case
def label_of_no_class_without_gradients() -> Brought:
    labels = tf.one_hot([0, -1], 4, dtype=tf.float64)
    function = lambda x: tf.nn.softmax_cross_entropy_with_logits(labels, tf.stack([x, x]))  # noqa: E731
    return traced(function, V, gradients=False)


@case
def gradient_by_labels() -> Brought:
    return own(
        tf.function(lambda x, labels: tf.nn.softmax_cross_entropy_with_logits(labels, x)), V, [0.0, 0.5, 0.5, 0.0]
    )


INDICES: dict[str, Callable[[Any], Any]] = {
    "negative_gather": lambda x: tf.gather(x, [0, -1]),
    "gather_beyond": lambda x: tf.gather(x, [[0, 4]], axis=1),
    "negative_place": lambda x: tf.gather_nd(x, [[0, -1]]),
    "scatter_beyond": lambda x: tf.scatter_nd([[3]], x[:1], [3, 4]),
    "update_beyond": lambda x: tf.tensor_scatter_nd_add(x, [[-1]], x[:1]),
    "segment_beyond": lambda x: tf.math.unsorted_segment_sum(x, [0, 2, -1], 2),
    "segments_unsorted": lambda x: tf.math.segment_sum(x, [0, 1, 0]),
    "negative_label": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([0, 1, -1], x),
}
for name, function in INDICES.items():
    CASES[name] = lambda function=function: Brought(from_tensorflow(function, A).to_json(), [], [], [], [], [])


def main(folder: Path) -> None:
    for name, make in dict(CASES).items():
        try:
            write(folder, name, make())
        except Exception as error:
            write(folder, name, Brought("", [], [], [], [], [], f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
