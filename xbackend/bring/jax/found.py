"""Brings a function of the user's file that JAX can trace, or a file of `jax.export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xbackend.bring.inputs import positional
from xbackend.bring.jax.computed import origin_of
from xbackend.bring.jax.given import from_jax
from xbackend.bring.origin import Origin
from xbackend.bring.stablehlo import found as files
from xbackend.errors import GraphError


def brought(found: Any, given: Any, name: str, generator: np.random.Generator) -> Origin:
    """The program of a function (or of the file at a path), JAX's results, and JAX's gradients if the function returns
    one floating-point scalar. Raises `GraphError`, and whatever JAX and the function raise."""
    import jax

    if isinstance(found, Path):
        return files.brought(found, given, name, generator)
    if not callable(found):
        raise GraphError(f"{name} is {type(found).__name__}: it has to be a function that jax.make_jaxpr takes")
    arrays = positional(given, name)
    jax.config.update("jax_enable_x64", True)  # else JAX casts the inputs to 32 bits
    # An array of JAX stays one: a mesh with explicit axes needs its sharding.
    examples = [one if isinstance(one, jax.Array) else array for one, array in zip(given, arrays, strict=True)]
    program = from_jax(found, *examples, name=name)
    return origin_of(program, arrays, found, examples, found)
