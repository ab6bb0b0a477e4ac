"""What users have of JAX: functions that `jax.make_jaxpr` takes, and exports."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from xbackend.api.tracing.trace import ArraySpec
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.jax.programs import from_jaxpr
from xbackend.bring.stablehlo.given import from_exported
from xbackend.errors import GraphError


def from_jax(function: Callable[..., Any], *examples: Any, name: str | None = None) -> TracedProgram:
    """The program of a function that JAX can trace, for arguments of the shapes and dtypes of the examples.

    Examples are arrays, numbers, `jax.ShapeDtypeStruct`, `xbackend.ArraySpec`, or nested tuples, lists and dictionaries
    of them. Each array in them is an argument of the program, named after its place. The results keep their form.

    Gradients of the program are those of what the function computes: rules of `jax.custom_jvp` and `jax.custom_vjp`
    are not taken over. `jax.lax.stop_gradient` is. Raises `GraphError` with all primitives that have no row, or where a
    shape depends on values.

    It may be a `jax.export.Exported`, which `jax.export.deserialize` makes of a file. Its shapes are known, unless they
    have symbols: then examples say the numbers. It has no rule of a gradient, and no `jax.lax.stop_gradient`.

    >>> import jax.numpy as jnp
    >>> program = xb.from_jax(lambda x: jnp.sum(x * x), np.ones(3))
    >>> [node.op for node in program.nodes]
    ['input', 'multiply', 'sum']
    """
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
    """A name for each array in the examples: that of the parameter and the way to it."""
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
        # A step on the way to an array is an index, a key or an attribute.
        steps = (next((getattr(one, n) for n in ("idx", "key", "name") if hasattr(one, n)), one) for one in rest)
        found.append("_".join([own, *map(str, steps)]))
    return found
