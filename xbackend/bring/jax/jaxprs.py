"""Rows of equations with jaxprs inside of them: calls, `scan`, `while` and `cond`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api import control_flow
from xbackend.bring import dtypes
from xbackend.bring.choices import chosen
from xbackend.bring.jax.walk import EXPANDED, ROWS, JaxprWalk, dtype_of, expanded, inner_jaxprs, opened, row, together
from xbackend.errors import GraphError

_MOST_STEPS = 64  # of a loop over several devices, which is written out
_SPREAD = "it has shard_map or collectives inside of it, and a loop or a choice of a program is on one device: "


def _scan_lacks(equation: Any) -> str:
    if not together(equation) or 0 < int(equation.params["length"]) * _steps_inside(equation) <= _MOST_STEPS:
        return ""
    return (
        f"{_SPREAD}give it {_MOST_STEPS} steps at most, together with loops inside of it, which are written out, or "
        "bring the function of one step"
    )


def _steps_inside(equation: Any) -> int:
    """The number of steps to which nested loops inside of an equation are written out; 1 where there is none."""
    each = [one for jaxpr in inner_jaxprs(equation) for one in jaxpr.eqns if one.primitive.name in ROWS]
    steps = [int(one.params.get("length", 1)) if together(one) else 1 for one in each]
    return max((n * _steps_inside(one) for n, one in zip(steps, each, strict=True)), default=1)


def _while_lacks(equation: Any) -> str:
    return f"{_SPREAD}write lax.fori_loop from a number to a number" if together(equation) else ""


_SCAN = ("reverse", "length", "num_consts", "num_carry", "linear", "unroll", "_split_transpose", "ft_in", "ft_out")


@row("scan", attributes=_SCAN, inner=("jaxpr",), lacks=_scan_lacks)
def scan(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    if together(equation):
        return _written_out(walk, equation, values)
    params, atoms = equation.params, equation.invars
    consts, carries = _counts(params)
    arrays = [xb.asarray(one) for one in values]
    given, init, sequences = arrays[:consts], arrays[consts : consts + carries], arrays[consts + carries :]

    def step(carry: Any, rows: Any) -> Any:
        made = _inside(walk, params["jaxpr"], atoms[:consts], [*given, *carry, *(rows or ())])
        return made[:carries], made[carries:]

    length = int(params["length"])
    last, written = control_flow.scan(step, init, sequences or None, length, reverse=bool(params["reverse"]))
    return [*last, *written]


def _inside(walk: JaxprWalk, closed: Any, atoms: Any, values: list[Any]) -> list[Any]:
    """The results of the jaxpr of a loop or a choice. ``atoms``: the equation's operands that are its first inputs."""
    return [xb.asarray(one) for one in walk.within(closed, atoms).results(closed, values)]


def _written_out(walk: JaxprWalk, equation: Any, values: list[Any]) -> list[Any]:
    """The results of a loop whose every step has nodes of its own."""
    params, closed = equation.params, equation.params["jaxpr"]
    jaxpr, (consts, carries) = opened(closed)[0], _counts(params)
    given, carry, sequences = values[:consts], values[consts : consts + carries], values[consts + carries :]
    steps, written, inner = range(int(params["length"])), list[list[Any]](), None
    for step in reversed(steps) if params["reverse"] else steps:
        # Constants in the carry stay known from step to step.
        if inner is None:
            inner = walk.within(closed, equation.invars[: consts + carries])
        else:
            inner = inner.within(closed, [*jaxpr.invars[:consts], *jaxpr.outvars[:carries]])
        rows = [walk.each(lambda x, at=step: xb.asarray(x)[at], one) for one in sequences]
        made = inner.results(closed, [*given, *carry, *rows])
        carry = made[:carries]
        written.append(made[carries:])
    in_order = written[::-1] if params["reverse"] else written
    return [*carry, *(walk.each(lambda *each: xb.stack(each), *one) for one in zip(*in_order, strict=True))]


def _counts(params: Any) -> tuple[int, int]:
    """The number of constants and of carries."""
    if "ft_in" in params:
        consts, carry, _ = params["ft_in"].unpack()
        return len(consts), len(carry)
    return int(params["num_consts"]), int(params["num_carry"])


@row("while", attributes=("cond_nconsts", "body_nconsts"), inner=("cond_jaxpr", "body_jaxpr"), lacks=_while_lacks)
def while_loop(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    params, atoms = equation.params, equation.invars
    first, second = int(params["cond_nconsts"]), int(params["body_nconsts"])
    arrays = [xb.asarray(one) for one in values]
    of_condition, of_body, state = arrays[:first], arrays[first : first + second], arrays[first + second :]

    def asked(carry: list[Any]) -> Any:
        return _inside(walk, params["cond_jaxpr"], atoms[:first], [*of_condition, *carry])[0]

    def condition(carry: list[Any]) -> Any:
        going = asked(carry)
        return xb.any(going) if going.ndim else going

    def body(carry: list[Any]) -> list[Any]:
        after = _inside(walk, params["body_jaxpr"], atoms[first : first + second], [*of_body, *carry])
        going = asked(carry)
        return [_kept(going, new, old) for new, old in zip(after, carry, strict=True)] if going.ndim else after

    return list(control_flow.while_loop(condition, body, state))


def _kept(going: Any, new: Any, old: Any) -> Any:
    """The new value of each loop under `jax.vmap` that goes on, and the old one of the others."""
    return xb.where(xb.reshape(going, (*going.shape, *(1,) * (new.ndim - going.ndim))), new, old)


@row("cond", attributes=("branches_platforms",), inner=("branches",))
def cond(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    branches, atoms = equation.params["branches"], equation.invars[1:]
    index = walk.known(equation.invars[0])
    if index is not None:
        return walk.inside(branches[min(max(int(index), 0), len(branches) - 1)], atoms)
    if together(equation):
        raise GraphError(f"{_SPREAD}compute both results, and choose with jnp.where")
    given = [xb.asarray(one) for one in values[1:]]
    made = [partial(_inside, walk, branch, atoms, given) for branch in branches]
    if len(made) == 2:
        cast = walk.made_by(equation.invars[0], "convert_element_type")
        is_of_bool = cast is not None and dtype_of(cast.invars[0]) == "bool"
        second = walk.value(cast.invars[0]) if is_of_bool else xb.greater(values[0], 0)
        return list(control_flow.cond(second, made[1], made[0]))
    return list(chosen(lambda number: xb.less_equal(values[0], number), made))


@row("platform_index", attributes=("platforms",))
def platform_index(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """The number of the first branch for all platforms or for the CPU: a program runs on any platform."""
    platforms = equation.params["platforms"]
    number = next((i for i, one in enumerate(platforms) if one is None or "cpu" in one), None)
    if number is None:
        raise GraphError(f"a choice by platform has no row: it has branches of {platforms} only")
    found = np.asarray(number, np.int32)
    walk.note(equation.outvars[0], found)
    return found


# --- calls ------------------------------------------------------------------------------------------------------------


def _called(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    (name,) = (one for one in ROWS[equation.primitive.name].inner if one in equation.params)
    return walk.inside(equation.params[name], equation.invars)


# Primitives, and the attributes of which one is their jaxpr.
for _names, _inner in (
    ("jit pjit remat2 remat checkpoint composite", ("jaxpr",)),
    ("closed_call core_call call custom_jvp_call", ("call_jaxpr",)),
    ("custom_vjp_call custom_vjp_call_jaxpr", ("call_jaxpr", "fun_jaxpr")),
    ("custom_vmap_call", ("call",)),
):
    row(*_names.split(), attributes=None, inner=_inner)(_called)


@row(EXPANDED, attributes=("_prim",))
def high(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """`xb.searchsorted` of a vector, else the ops to which JAX expands the primitive."""
    if not inner_jaxprs(equation):
        found = xb.searchsorted(*values, side=equation.params["_prim"].side)
        return dtypes.cast(found, "int64", dtype_of(equation.outvars[0]))
    return walk.inside(expanded(equation), equation.invars)
