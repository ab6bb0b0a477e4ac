"""Equations that call a jaxpr: it is walked in their place."""

from __future__ import annotations

from typing import Any

import xbackend.api.functions as xb
from xbackend.bring import dtypes
from xbackend.bring.jax.walk import EXPANDED, ROWS, Walk, dtype_of, expanded, is_search, row

# Names of primitives, and of the attributes that may have their jaxpr.
_CALLS = (
    ("jit pjit remat2 remat checkpoint composite", ("jaxpr",)),
    ("closed_call core_call call custom_jvp_call", ("call_jaxpr",)),
    ("custom_vjp_call custom_vjp_call_jaxpr", ("call_jaxpr", "fun_jaxpr")),
    ("custom_vmap_call", ("call",)),
)


def _called(walk: Walk, equation: Any, values: list[Any]) -> Any:
    (name,) = (one for one in ROWS[equation.primitive.name].inner if one in equation.params)
    return walk.inside(equation.params[name], equation.invars)


for _names, _inner in _CALLS:
    row(*_names.split(), attributes=None, inner=_inner)(_called)


@row(EXPANDED, attributes=("_prim",))
def high(walk: Walk, equation: Any, values: list[Any]) -> Any:
    """`xb.searchsorted` of a vector, or what JAX makes of it."""
    if is_search(equation):
        found = xb.searchsorted(*values, side=equation.params["_prim"].side)
        return dtypes.cast(found, "int64", dtype_of(equation.outvars[0]))
    return walk.inside(expanded(equation.params["_prim"]), equation.invars)
