"""An object of the user's file, which is a function for TensorFlow to trace or fetches of a session of TensorFlow 1; or
a file of TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.bring.inputs import positional
from xbackend.bring.origin import Origin
from xbackend.bring.tensorflow import files, sessions
from xbackend.bring.tensorflow.given import from_tensorflow
from xbackend.errors import GraphError


def brought(found: Any, given: Any, name: str, generator: np.random.Generator) -> Origin:
    """The program, and TensorFlow's own results; of a floating-point scalar its own gradients, too. A function that
    assigns has neither. Raises `GraphError`."""
    import tensorflow as tf

    if isinstance(found, Path):
        return files.brought(found, given, name, generator)
    if sessions.is_fetched(found):
        return sessions.brought(found, given, name, generator)
    if not callable(found):
        raise GraphError(
            f"{name} is {type(found).__name__}: it has to be a tf.function or a ConcreteFunction, or of TensorFlow 1 a "
            "tensor, an operation or a list of them"
        )
    arrays = positional(given, name)
    program = from_tensorflow(found, *(tf.constant(one) for one in arrays), name=name)
    names = [program.values[i].params["name"] for i in program.inputs]
    facts = {"graph": f"TensorFlow {tf.__version__}"}
    if program.updates:  # a call would assign the user's variables
        return Origin(program, arrays, facts=facts)
    given_ = [tf.constant(one) for one in arrays]
    results = [np.asarray(one) for one in tf.nest.flatten(_called(found, given_))]
    floating = [k for k, one in enumerate(arrays) if one.dtype.kind == "f"]
    if len(results) != 1 or results[0].ndim or results[0].dtype.kind != "f" or not floating:
        return Origin(program, arrays, results=results, facts=facts)
    slopes = _slopes(found, given_, floating)
    return Origin(program, arrays, [names[k] for k in floating], results, slopes, facts)


def _called(found: Any, given: Sequence[Any]) -> Any:
    """What a function returns for its arrays. A signature of a SavedModel takes them by name."""
    import tensorflow as tf

    if not hasattr(found, "structured_input_signature"):
        return found(*given)
    each = iter(given)
    args, named = tf.nest.map_structure(
        lambda one: next(each) if isinstance(one, tf.TypeSpec) else one, found.structured_input_signature
    )
    return found(*args, **named)


def _slopes(found: Any, given: Sequence[Any], floating: Sequence[int]) -> list[np.ndarray]:
    """TensorFlow's gradients of a scalar by the arrays numbered ``floating``; none where TensorFlow lacks that of an
    operation."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(given)
        try:
            value = tf.nest.flatten(_called(found, given))[0]
            slopes = tape.gradient(value, [given[k] for k in floating], unconnected_gradients="zero")
        except LookupError as error:
            if "gradient" not in str(error):  # raised by the user's code
                raise
            return []
    return [tf.convert_to_tensor(one).numpy() for one in slopes]  # those of a gather are sparse
