"""An object of the user's file, which is a function for TensorFlow to trace or fetches of a session of TensorFlow 1; or
a file of TensorFlow."""

from __future__ import annotations

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
    with tf.GradientTape(persistent=False) as tape:
        tape.watch(given_)
        value = found(*given_)
    results = [np.asarray(one) for one in tf.nest.flatten(value)]
    floating = [k for k, one in enumerate(arrays) if one.dtype.kind == "f"]
    if len(results) != 1 or results[0].ndim or results[0].dtype.kind != "f" or not floating:
        return Origin(program, arrays, results=results, facts=facts)
    slopes = tape.gradient(value, [given_[k] for k in floating], unconnected_gradients="zero")
    return Origin(program, arrays, [names[k] for k in floating], results, [np.asarray(one) for one in slopes], facts)
