"""Brings a file that `jax.export` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xbackend.bring.inputs import Input, arrays_of
from xbackend.bring.origin import Origin
from xbackend.bring.stablehlo.given import Graph, graph_of, names_of
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
    said = f"JAX {jax.__version__}"
    if jax.default_backend() not in exported.platforms:
        return Origin(program, arrays, facts={"graph": f"{said}, exported for {', '.join(exported.platforms)}"})
    results = [np.asarray(one) for one in jax.tree.leaves(jax.jit(lambda *flat: _own(exported, flat))(*arrays))]
    floating = [k for k, one in enumerate(arrays) if one.dtype.kind == "f"]
    scalar = len(results) == 1 and results[0].ndim == 0 and results[0].dtype.kind == "f"
    slopes = _slopes(graph, arrays, floating) if scalar and floating else []
    gradient = [program.values[program.inputs[k]].params["name"] for k in floating] if slopes else []
    return Origin(program, arrays, gradient, results, slopes, {"graph": said})


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


def _own(exported: Any, flat: Any) -> Any:
    import jax

    arguments, keywords = jax.tree.unflatten(exported.in_tree, flat)
    return exported.call(*arguments, **keywords)


def _slopes(graph: Graph, arrays: list[np.ndarray], floating: list[int]) -> list[np.ndarray]:
    """JAX's gradients: by the rule in the file, else of its ops; empty where a loop has no gradient."""
    import jax

    own = graph.exported.has_vjp()

    def loss(*flat: Any) -> Any:
        return jax.tree.leaves(_own(graph.exported, flat) if own else graph.function(*flat))[0]

    try:
        return [*map(np.asarray, jax.jit(jax.grad(loss, argnums=tuple(floating)))(*arrays))]
    except ValueError as error:
        if "while_loop" in str(error):
            return []
        raise
