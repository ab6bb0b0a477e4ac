"""Scripts of TensorFlow 1: their fetches are tensors and operations of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.inputs import Input, arrays_of
from xbackend.bring.origin import Origin
from xbackend.bring.tensorflow.given import from_graph_def, parted
from xbackend.bring.tensorflow.walk import held, lengths_of, operations
from xbackend.errors import GraphError


def is_fetched(found: Any) -> bool:
    """Whether it is a tensor or an operation of a graph, or a list of them."""
    each = found if isinstance(found, list | tuple) else [found]
    return bool(each) and not any(map(callable, each)) and all(hasattr(one, "graph") for one in each)


def brought(found: Any, given: Any, name: str, generator: np.random.Generator) -> Origin:
    """The program of fetches. Its inputs are the placeholders, in the order in which they were made.

    Variables have the initial values that a new session gives them. Raises `GraphError`.
    """
    import tensorflow as tf

    single = not isinstance(found, list | tuple)
    each = [found] if single else list(found)
    graph = each[0].graph
    if any(one.graph is not graph for one in each):
        raise GraphError(f"{name} has tensors of several graphs, and a session has one")
    fetched = [_element(graph, one) for one in each]
    fed = placeholders(graph, fetched)
    arrays = arrays_of([described(one) for one in fed], given, generator)
    inputs = {one.name: array for one, array in zip(fed, arrays, strict=True)}
    scalar = single and is_scalar(fetched)
    with session(graph, name) as running:
        variables = [*graph.get_collection("variables"), *graph.get_collection("local_variables")]
        running.run([one.initializer for one in variables])
        first = {one.op.name: value for one, value in zip(variables, running.run(variables), strict=True)}
        names = [one.name if isinstance(one, tf.Tensor) else f"^{one.name}" for one in fetched]
        outputs = names[0] if single and isinstance(fetched[0], tf.Tensor) else names
        program = from_graph_def(graph, outputs, inputs, variables=first, name=name, gradients=scalar)
        return measured(running, program, fetched, inputs, scalar=scalar)


def placeholders(graph: Any, fetched: Sequence[Any]) -> list[Any]:
    """The placeholders that the fetches depend on, in the order in which they were made."""
    found = {one.name for one in operations(*parted(fetched), {}) if one.type == "Placeholder"}
    return [one.outputs[0] for one in graph.get_operations() if one.name in found]


def described(tensor: Any, name: str = "") -> Input:
    """The description of a fed tensor. Raises `GraphError` for a dtype that no program has."""
    name = name or tensor.op.name
    try:
        dtype = held(tensor.dtype).value
    except GraphError as error:
        raise GraphError(f"the input {name}: {error}") from None
    return Input(name, f"{name} ({dtype}{tensor.shape})", dtype, lengths_of(tensor))


def is_scalar(fetched: Sequence[Any]) -> bool:
    """Whether the only fetch is a floating-point scalar."""
    first = fetched[0]
    one = len(fetched) == 1 and hasattr(first, "value_index")
    return one and first.shape.rank == 0 and bool(first.dtype.is_floating)


def measured(
    running: Any,
    program: TracedProgram,
    fetched: Sequence[Any],
    fed: Mapping[str, np.ndarray],
    *,
    scalar: bool,
    derived: bool = True,
) -> Origin:
    """The program with a session's results, for the arrays ``fed`` by the names of tensors.

    A ``scalar`` without assignments has TensorFlow's own gradients, too, if they are to be ``derived``.
    """
    import tensorflow as tf

    graph = running.graph
    results = [one for one in running.run(list(fetched), dict(fed)) if one is not None]
    tensors = {name: graph.get_tensor_by_name(name) for name in fed} if scalar and not program.updates else {}
    floating = {name: one for name, one in tensors.items() if one.dtype.is_floating}
    slopes: list[Any] = []
    if floating and derived and not graph.finalized:
        with graph.as_default():
            slopes = _slopes(running, fetched[0], list(floating.values()), fed)
    own = [program.values[i].params["name"] for i in program.inputs]
    targets = [label for label, name in zip(own, fed, strict=True) if name in floating]
    facts = {"graph": f"TensorFlow {tf.__version__}"}
    arrays = list(fed.values())
    return Origin(program, arrays, targets, list(map(np.asarray, results)), list(map(np.asarray, slopes)), facts)


def _slopes(running: Any, loss: Any, of: Sequence[Any], fed: Mapping[str, np.ndarray]) -> list[Any]:
    """TensorFlow's gradients; none where TensorFlow lacks that of an operation."""
    import tensorflow as tf

    try:
        made = tf.gradients(loss, of, unconnected_gradients="zero")
        dense = [tf.convert_to_tensor(one) for one in made]  # those of a gather are sparse
        return list(running.run(dense, dict(fed)))
    except (LookupError, tf.errors.OpError) as error:  # the second of a function, which a session derives
        if "radient" not in str(error):
            raise
        return []


@contextmanager
def session(graph: Any, name: str) -> Iterator[Any]:
    """A session of the graph. Raises `GraphError` where TensorFlow refuses to run something."""
    import tensorflow as tf

    options = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    try:
        with tf.compat.v1.Session(graph=graph, config=options) as running:
            yield running
    except tf.errors.OpError as error:
        own = error.__context__ if isinstance(error.__context__, tf.errors.OpError) else error  # without a traceback
        raise GraphError(
            f"a session of TensorFlow does not run {name}: {own.message.splitlines()[0]:.300}; inputs that suit it are "
            "given with --input, in the order of the placeholders, or by a function inputs()"
        ) from None


def _element(graph: Any, one: Any) -> Any:
    """The tensor or the operation that a session fetches for an object. Raises `GraphError`."""
    try:
        return graph.as_graph_element(one)
    except (TypeError, ValueError) as error:
        raise GraphError(f"no session fetches {type(one).__name__}: {error}") from None
