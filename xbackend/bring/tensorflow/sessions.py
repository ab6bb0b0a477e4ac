"""What scripts of TensorFlow 1 have: tensors and operations of a graph, which a session would run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xbackend.bring.origin import Origin
from xbackend.bring.tensorflow.given import from_graph_def
from xbackend.bring.tensorflow.walk import held, operations
from xbackend.errors import GraphError


def is_fetched(found: Any) -> bool:
    """Whether it is a tensor or an operation of a graph, or several of them."""
    each = found if isinstance(found, list | tuple) else [found]
    return bool(each) and not any(map(callable, each)) and all(hasattr(one, "graph") for one in each)


def brought(found: Any, given: Any, name: str, generator: np.random.Generator) -> Origin:
    """The program of what a session would fetch, its placeholders as inputs, in the order in which they were made.

    Variables have the first values that a new session gives them. Raises `GraphError`.
    """
    import tensorflow as tf

    single = not isinstance(found, list | tuple)
    each = [found] if single else list(found)
    graph = each[0].graph
    if any(one.graph is not graph for one in each):
        raise GraphError(f"{name} has tensors of several graphs, and a session has one")
    fetched = [_element(graph, one) for one in each]
    tensors = [one for one in fetched if isinstance(one, tf.Tensor)]
    controls = [one for one in fetched if not isinstance(one, tf.Tensor)]
    fed = [one for one in operations(tensors, controls, {}) if one.type == "Placeholder"]
    fed.sort(key=graph.get_operations().index)
    arrays = _arrays([one.outputs[0] for one in fed], given, generator)
    inputs = {f"{one.name}:0": array for one, array in zip(fed, arrays, strict=True)}
    scalar = single and bool(tensors) and tensors[0].shape.rank == 0 and tensors[0].dtype.is_floating
    with _session(graph, name) as session:
        variables = [*graph.get_collection("variables"), *graph.get_collection("local_variables")]
        session.run([one.initializer for one in variables])
        first = {one.op.name: value for one, value in zip(variables, session.run(variables), strict=True)}
        names = [one.name if isinstance(one, tf.Tensor) else f"^{one.name}" for one in fetched]
        outputs = names[0] if single and tensors else names
        program = from_graph_def(graph, outputs, inputs, variables=first, name=name, gradients=scalar)
        results = [one for one in session.run(fetched, inputs) if one is not None]
        floating = [one.outputs[0] for one in fed if one.outputs[0].dtype.is_floating]
        slopes: list[Any] = []
        if scalar and floating and not program.updates and not graph.finalized:
            with graph.as_default():
                made = tf.gradients(tensors[0], floating, unconnected_gradients="zero")
            slopes = session.run(made, inputs)
    own = [program.values[i].params["name"] for i in program.inputs]
    targets = [label for label, one in zip(own, fed, strict=True) if one.outputs[0] in floating and slopes]
    facts = {"graph": f"TensorFlow {tf.__version__}"}
    return Origin(program, arrays, targets, list(map(np.asarray, results)), list(map(np.asarray, slopes)), facts)


@contextmanager
def _session(graph: Any, name: str) -> Iterator[Any]:
    """A session of the graph. Raises `GraphError` where TensorFlow refuses what it is to run."""
    import tensorflow as tf

    options = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    try:
        with tf.compat.v1.Session(graph=graph, config=options) as session:
            yield session
    except tf.errors.OpError as error:
        own = error.__context__ if isinstance(error.__context__, tf.errors.OpError) else error  # without a traceback
        raise GraphError(
            f"a session of TensorFlow does not run {name}: {own.message.splitlines()[0]:.300}; inputs that suit it are "
            "given with --input, in the order of the placeholders, or by a function inputs()"
        ) from None


def _element(graph: Any, one: Any) -> Any:
    """The tensor or operation that a session takes something for. Raises `GraphError`."""
    try:
        return graph.as_graph_element(one)
    except (TypeError, ValueError) as error:
        raise GraphError(f"no session fetches {type(one).__name__}: {error}") from None


def _arrays(placeholders: Sequence[Any], given: Any, generator: np.random.Generator) -> list[np.ndarray]:
    """The placeholders' arrays: given in their order or by name, or drawn where all lengths are known. Raises
    `GraphError`."""
    names = [one.op.name for one in placeholders]
    if isinstance(given, Mapping):
        if unknown := set(given) - set(names):
            raise GraphError(f"inputs() gives {', '.join(sorted(unknown))}; placeholders are {', '.join(names)}")
        given = [given.get(name) for name in names]
    if given and len(given) != len(names):
        words = ", ".join(f"{one.op.name} ({one.dtype.name}{one.shape})" for one in placeholders)
        raise GraphError(f"the graph has {len(names)} placeholders, {len(given)} are given: {words}")
    return [
        _array(one, value, generator) for one, value in zip(placeholders, given or [None] * len(names), strict=True)
    ]


def _array(placeholder: Any, value: Any, generator: np.random.Generator) -> np.ndarray:
    dtype, shape = held(placeholder.dtype).value, placeholder.shape
    if value is not None:
        return np.asarray(value, dtype)  # as a session takes it
    if not shape.is_fully_defined():
        raise GraphError(
            f"the placeholder {placeholder.op.name} has the shape {shape}, which is not fixed: give each with --input, "
            "as in --input 'float64[3,4]', in the order in which they are made, or write a function inputs()"
        )
    lengths = tuple(shape.as_list())
    drawn = generator.standard_normal(lengths) if "float" in dtype else generator.integers(0, 10, lengths)
    return np.asarray(drawn).astype(dtype)
