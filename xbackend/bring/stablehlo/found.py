"""Brings a file that `jax.export` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xbackend.bring.inputs import Input, arrays_of
from xbackend.bring.jax.computed import origin_of
from xbackend.bring.origin import Origin
from xbackend.bring.stablehlo.given import graph_of, names_of
from xbackend.errors import GraphError

LARGEST = 1 << 31  # bytes


def brought(path: Path, given: Any, name: str, generator: np.random.Generator) -> Origin:
    """The program of the function in a file; JAX's results, where it was exported for JAX's platform here; and JAX's
    gradients, where the result is one floating-point scalar. Raises `GraphError`."""
    import jax

    if name:
        raise GraphError(f"{path.name} has one function: leave out :{name}")
    exported = read(path)
    jax.config.update("jax_enable_x64", True)  # else JAX casts the inputs to 32 bits
    arrays = arrays_of(_inputs(exported), given, generator)
    graph, called = graph_of(exported, arrays), path.stem
    program = graph.program(called)
    if jax.default_backend() not in exported.platforms:
        said = f"JAX {jax.__version__}, exported for {', '.join(exported.platforms)}"
        return Origin(program, arrays, facts={"graph": said})

    def own(*flat: Any) -> Any:
        arguments, keywords = jax.tree.unflatten(exported.in_tree, flat)
        return exported.call(*arguments, **keywords)

    # Gradients are by the rule in the file, else of its ops.
    return origin_of(program, arrays, own, arrays, own if exported.has_vjp() else graph.function)


def read(path: Path) -> Any:
    """The `jax.export.Exported` in a file. Raises `GraphError`."""
    import jax

    if path.stat().st_size > LARGEST:
        raise GraphError(f"{path.name} has {path.stat().st_size} bytes, and {LARGEST} are read at most: export a part")
    try:
        return jax.export.deserialize(bytearray(path.read_bytes()))
    except ImportError as error:
        raise GraphError(f"{error}: pip install flatbuffers, there") from None
    except Exception as error:  # the parser has its own errors
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise GraphError(
            f"{path.name} is no file of jax.export, or is cut off: {said:.200}: write it with "
            "jax.export.export(jax.jit(f))(*examples).serialize()"
        ) from None


def _inputs(exported: Any) -> list[Input]:
    found = []
    for name, one in zip(names_of(exported), exported.in_avals, strict=True):
        said = f"{name} ({one.dtype}[{', '.join(map(str, one.shape))}])"
        found.append(Input(name, said, str(one.dtype), [n if isinstance(n, int) else None for n in one.shape]))
    return found
