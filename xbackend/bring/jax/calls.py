"""Equations that call a jaxpr: it is walked in their place."""

from __future__ import annotations

from typing import Any

import xbackend.api.functions as xb
from xbackend.bring import dtypes
from xbackend.bring.jax.walk import EXPANDED, Walk, dtype_of, expanded, is_search, row


@row("jit", "pjit", "remat2", "remat", "checkpoint", "composite", attributes=None, inner=("jaxpr",))
def jaxpr(walk: Walk, equation: Any, values: list[Any]) -> Any:
    return walk.inside(equation.params["jaxpr"], equation.invars)


@row("closed_call", "core_call", "call", "custom_jvp_call", attributes=None, inner=("call_jaxpr",))
def call_jaxpr(walk: Walk, equation: Any, values: list[Any]) -> Any:
    return walk.inside(equation.params["call_jaxpr"], equation.invars)


@row("custom_vjp_call", "custom_vjp_call_jaxpr", attributes=None, inner=("call_jaxpr", "fun_jaxpr"))
def custom_vjp(walk: Walk, equation: Any, values: list[Any]) -> Any:
    params = equation.params
    return walk.inside(params["call_jaxpr"] if "call_jaxpr" in params else params["fun_jaxpr"], equation.invars)


@row("custom_vmap_call", attributes=None, inner=("call",))
def custom_vmap(walk: Walk, equation: Any, values: list[Any]) -> Any:
    return walk.inside(equation.params["call"], equation.invars)


@row(EXPANDED, attributes=("_prim",))
def high(walk: Walk, equation: Any, values: list[Any]) -> Any:
    """`xb.searchsorted` of a vector, or what JAX makes of it."""
    if is_search(equation):
        found = xb.searchsorted(*values, side=equation.params["_prim"].side)
        return dtypes.cast(found, "int64", dtype_of(equation.outvars[0]))
    return walk.inside(expanded(equation), equation.invars)
