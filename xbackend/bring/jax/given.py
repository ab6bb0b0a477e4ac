"""`xb.from_jax`: programs of functions that `jax.make_jaxpr` takes, and of exports."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from xbackend.api.tracing.trace import ArraySpec
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.jax.programs import from_jaxpr
from xbackend.bring.stablehlo.given import from_exported
from xbackend.errors import GraphError
from xbackend.extras import need_framework


def from_jax(function: Callable[..., Any], *examples: Any, name: str | None = None) -> TracedProgram:
    """The program of a function that JAX can trace, for arguments of the shapes and dtypes of the examples.

    Examples are arrays, numbers, `jax.ShapeDtypeStruct`, `xbackend.ArraySpec`, or nested tuples, lists and dictionaries
    of them. Each array in them is an argument of the program, named after its parameter and its path in the example.
    The results are nested as the function's.

    Gradients of the program are those of the ops: rules of `jax.custom_jvp` and `jax.custom_vjp` are not taken over,
    `jax.lax.stop_gradient` is.

    ``function`` may be a `jax.export.Exported`, which `jax.export.deserialize` makes of a file. It needs examples only
    where its shapes have symbols. It has neither rules of gradients nor `jax.lax.stop_gradient`.

    Raises `GraphError` with all primitives that have no row, and what JAX raises while it traces, as for a shape that
    depends on values.

    >>> import jax.numpy as jnp
    >>> program = xb.from_jax(lambda x: jnp.sum(x * x), np.ones(3))
    >>> [node.op for node in program.nodes]
    ['input', 'multiply', 'sum']
    """
    need_framework("xb.from_jax", "jax")
    import jax

    if isinstance(function, jax.export.Exported):
        return from_exported(function, *examples, name=name)
    if not callable(function):
        raise GraphError(f"{function!r:.60} is no function: give one that jax.make_jaxpr takes, and examples")

    def shaped(one: Any) -> Any:
        return jax.ShapeDtypeStruct(one.shape, one.dtype.value) if isinstance(one, ArraySpec) else one

    given = jax.tree.map(shaped, examples, is_leaf=lambda one: isinstance(one, ArraySpec))
    closed, form = jax.make_jaxpr(function, return_shape=True)(*given)
    called, tree = name or str(getattr(function, "__name__", "graph")), jax.tree.structure(form)
    return from_jaxpr(closed, _names(function, given), called, tree.unflatten)


def _names(function: Callable[..., Any], examples: tuple[Any, ...]) -> list[str]:
    """A name for each array in the examples: the parameter and the path in it, as in ``params_layers_0``."""
    import jax

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # functions in C
        parameters = []
    single = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    paths, _ = jax.tree_util.tree_flatten_with_path(examples)
    found = []
    for (first, *rest), _ in paths:
        own = single[first.idx] if first.idx < len(single) else f"x{first.idx}"
        found.append("_".join([own, *([jax.tree_util.keystr(rest, simple=True, separator="_")] if rest else [])]))
    return found
