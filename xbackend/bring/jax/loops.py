"""`scan`, `while` and `cond`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api import control_flow
from xbackend.bring.choices import chosen
from xbackend.bring.jax.walk import ROWS, Walk, dtype_of, inner_jaxprs, is_literal, opened, row, spreads
from xbackend.errors import GraphError

_MOST_STEPS = 64  # of a loop over several devices, which is written out
_SPREAD = "it has shard_map or collectives inside of it, and a loop or a choice of a program is on one device: "


def _spread(equation: Any) -> bool:
    names = ("jaxpr", "cond_jaxpr", "body_jaxpr")
    return any(spreads(opened(equation.params[name])[0]) for name in names if name in equation.params)


def _scan_lacks(equation: Any) -> str:
    length = int(equation.params["length"])
    if not _spread(equation) or (length > 0 and length * _steps_inside(equation) <= _MOST_STEPS):
        return ""
    return (
        f"{_SPREAD}give it {_MOST_STEPS} steps at most, together with loops inside of it, which are written out, or "
        "bring the function of one step"
    )


def _steps_inside(equation: Any) -> int:
    """How often the step of a loop inside of an equation is written out, 1 where there is no such loop."""
    each = [one for jaxpr in inner_jaxprs(equation) for one in jaxpr.eqns if one.primitive.name in ROWS]
    return max(
        (int(one.params.get("length", 1) if _spread(one) else 1) * _steps_inside(one) for one in each), default=1
    )


def _while_lacks(equation: Any) -> str:
    return f"{_SPREAD}write lax.fori_loop from a number to a number" if _spread(equation) else ""


_SCAN = ("reverse", "length", "num_consts", "num_carry", "linear", "unroll", "_split_transpose", "ft_in", "ft_out")


@row("scan", attributes=_SCAN, inner=("jaxpr",), lacks=_scan_lacks)
def scan(walk: Walk, equation: Any, values: list[Any]) -> Any:
    params = equation.params
    if _spread(equation):
        return _written_out(walk, equation, values)
    consts, carries = _counts(params)
    closed, arrays = params["jaxpr"], [xb.asarray(one) for one in values]
    given, init, sequences = arrays[:consts], arrays[consts : consts + carries], arrays[consts + carries :]

    def step(carry: Any, rows: Any) -> Any:
        inner = walk.within(closed, equation.invars[:consts])
        made = [xb.asarray(one) for one in inner.results(closed, [*given, *carry, *(rows or ())])]
        return made[:carries], made[carries:]

    length = int(params["length"])
    last, written = control_flow.scan(step, init, sequences or None, length, reverse=bool(params["reverse"]))
    return [*last, *written]


def _written_out(walk: Walk, equation: Any, values: list[Any]) -> list[Any]:
    """Each step as equations of its own."""
    params, closed = equation.params, equation.params["jaxpr"]
    jaxpr, (consts, carries) = opened(closed)[0], _counts(params)
    given, carry, sequences = values[:consts], values[consts : consts + carries], values[consts + carries :]
    steps, written, inner = range(int(params["length"])), list[list[Any]](), None
    for step in reversed(steps) if params["reverse"] else steps:
        # What is constant in the carry stays so from step to step.
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
def while_loop(walk: Walk, equation: Any, values: list[Any]) -> Any:
    params, atoms = equation.params, equation.invars
    first, second = int(params["cond_nconsts"]), int(params["body_nconsts"])
    arrays = [xb.asarray(one) for one in values]
    of_condition, of_body, state = arrays[:first], arrays[first : first + second], arrays[first + second :]

    def asked(carry: list[Any]) -> Any:
        inner = walk.within(params["cond_jaxpr"], atoms[:first])
        return xb.asarray(inner.results(params["cond_jaxpr"], [*of_condition, *carry])[0])

    def condition(carry: list[Any]) -> Any:
        going = asked(carry)
        return xb.any(going) if going.ndim else going

    def body(carry: list[Any]) -> list[Any]:
        inner = walk.within(params["body_jaxpr"], atoms[first : first + second])
        after = [xb.asarray(one) for one in inner.results(params["body_jaxpr"], [*of_body, *carry])]
        going = asked(carry)
        return [_kept(going, new, old) for new, old in zip(after, carry, strict=True)] if going.ndim else after

    return list(control_flow.while_loop(condition, body, state))


def _kept(going: Any, new: Any, old: Any) -> Any:
    """The new value of those loops of `jax.vmap` that go on, and the old one of the others."""
    return xb.where(xb.reshape(going, (*going.shape, *(1,) * (new.ndim - going.ndim))), new, old)


@row("cond", attributes=("branches_platforms",), inner=("branches",))
def cond(walk: Walk, equation: Any, values: list[Any]) -> Any:
    branches, atoms = equation.params["branches"], equation.invars[1:]
    index = walk.known(equation.invars[0])
    if index is not None:
        return walk.inside(branches[min(max(int(index), 0), len(branches) - 1)], atoms)
    if any(spreads(opened(one)[0]) for one in branches):
        raise GraphError(f"{_SPREAD}compute both results, and choose with jnp.where")
    given = [xb.asarray(one) for one in values[1:]]

    def branch(number: int) -> Callable[[], Any]:
        def made() -> Any:
            inner = walk.within(branches[number], atoms)
            return [xb.asarray(one) for one in inner.results(branches[number], given)]

        return made

    if len(branches) == 2:
        predicate = _bool_of(walk, equation.invars[0])
        second = xb.greater(values[0], 0) if predicate is None else predicate
        return list(control_flow.cond(second, branch(1), branch(0)))
    made = [branch(number) for number in range(len(branches))]
    return list(chosen(lambda number: xb.less_equal(values[0], number), made))


def _bool_of(walk: Walk, atom: Any) -> Any:
    """The bool of which an index was made."""
    made = None if is_literal(atom) else walk.made.get(atom)
    if made is None or made.primitive.name != "convert_element_type" or dtype_of(made.invars[0]) != "bool":
        return None
    return walk.value(made.invars[0])


@row("platform_index", attributes=("platforms",))
def platform_index(walk: Walk, equation: Any, values: list[Any]) -> Any:
    """The branch of all platforms, or the CPU's: a program runs on any."""
    platforms = equation.params["platforms"]
    for number, one in enumerate(platforms):
        if one is None or "cpu" in one:
            found = np.asarray(number, np.int32)
            walk.found[equation.outvars[0]] = found
            return found
    raise GraphError(f"a choice by platform has no row: it has branches of {platforms} only")
