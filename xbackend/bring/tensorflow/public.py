"""The public functions, which import TensorFlow when they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xbackend.api.tracing.traced_program import TracedProgram


def from_tensorflow(function: Any, *examples: Any, name: str | None = None, gradients: bool = True) -> TracedProgram:
    """The program of a function of TensorFlow: a `tf.function`, a ConcreteFunction (a signature of a SavedModel is
    one), a Keras layer or model, or what `tf.function` takes.

    ``examples`` are its arguments: arrays, or an `xbackend.ArraySpec` with the shape, alone or nested. ``gradients``:
    whether a gradient may be asked for: what has another one than its operations (`tf.stop_gradient`) is refused then.
    Variables are the program's shared variables, assignments its updates. Raises `GraphError`.
    """
    from xbackend.bring.tensorflow import given

    return given.from_tensorflow(function, *examples, name=name, gradients=gradients)


def from_graph_def(graph_def: Any, outputs: Sequence[str], inputs: Mapping[str, Any], **options: Any) -> TracedProgram:
    """The program of a GraphDef of TensorFlow 1, its bytes, or a live `tf.Graph`, which keeps the user's lines.

    ``outputs`` are names of tensors, ``inputs`` names with arrays or `xbackend.ArraySpec`. ``options`` are
    ``variables`` (values by name), ``name`` and ``gradients``, as of `from_tensorflow`. Raises `GraphError`.
    """
    from xbackend.bring.tensorflow import given

    return given.from_graph_def(graph_def, outputs, inputs, **options)
