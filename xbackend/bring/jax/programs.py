"""The program of a jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xbackend.api.functions as xb
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring import dtypes
from xbackend.bring.jax import collectives, gathers, jaxprs, matrices, products  # noqa: F401  # fill ROWS
from xbackend.bring.jax.refused import check_rows
from xbackend.bring.jax.walk import JaxprWalk
from xbackend.bring.tracing import program_of
from xbackend.errors import GraphError


def from_jaxpr(closed: Any, names: Sequence[str], name: str, form: Callable[[list[Any]], Any]) -> TracedProgram:
    """The program of a `jax.extend.core.ClosedJaxpr` with the names of its inputs. ``form`` makes its results from a
    list of arrays. Raises `GraphError`."""
    check_rows(name, closed.jaxpr)
    specs = [(own, *_spec(own, variable.aval)) for own, variable in zip(names, closed.jaxpr.invars, strict=True)]

    def walk(*traced: Any) -> Any:
        return form([xb.asarray(one) for one in JaxprWalk().results(closed, traced)])

    return program_of(name, specs, walk)


def _spec(name: str, aval: Any) -> tuple[tuple[int, ...], dtypes.DType]:
    """Shape and dtype of an input. Raises `GraphError`."""
    dtype = getattr(getattr(aval, "dtype", None), "name", str(aval))
    if dtype in dtypes.SMALL:
        raise GraphError(f"the input {name} has dtype {dtype}, which arguments of a program have not: give it as int32")
    if not all(isinstance(n, int) for n in aval.shape):
        raise GraphError(f"the input {name} has the shape {aval.shape}: give numbers, as a program's shapes are fixed")
    return tuple(aval.shape), dtypes.held(dtype)
