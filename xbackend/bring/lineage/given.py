"""Programs of graphs of PyTensor, Aesara and Theano."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.state import update
from xbackend.api.tracing.trace import ArraySpec
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring import dtypes
from xbackend.bring.kinds import REWRITES
from xbackend.bring.lineage import arrays, indexing, loops, matrices, networks, scalars  # noqa: F401  # fill ROWS
from xbackend.bring.lineage.draws import copied, draws_of, inputs_of
from xbackend.bring.lineage.placed import Outermost
from xbackend.bring.lineage.walk import check_gradients, check_rows, lengths_of
from xbackend.bring.tracing import program_of
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType

INCLUDED = {"canonicalize": ("canonicalize",), "stabilize": ("canonicalize", "stabilize")}


def from_graph(
    outputs: Any,
    inputs: Mapping[Any, Any] | Sequence[Any],
    *,
    rewrites: str | None = None,
    name: str = "graph",
    updates: Mapping[Any, Any] | None = None,
    draws: Literal["inputs"] | None = None,
    gradients: bool = True,
) -> TracedProgram:
    """The program of a graph of PyTensor, Aesara or Theano.

    Args:
        outputs: a variable, or a list of variables.
        inputs: the argument variables, each with an array or an `xbackend.ArraySpec` of its shape; a list is enough if
            the shapes in their types are complete.
        rewrites: the framework's rewrites of the graph: ``"canonicalize"``, or ``"stabilize"`` for both; with
            ``"none"`` or `None` the graph stays as written.
        name: the program's name.
        updates: new values by shared variable.
        draws: ``"inputs"`` makes each random variable an input, after the others; the shape in its type has to be
            complete.
        gradients: whether the program may be differentiated. If so, a loop with ``until`` is a `scan` over its
            ``n_steps``; otherwise it is a `while_loop`, which has no gradient.

    Raises `GraphError` that lists all ops without a row, or if a shape depends on values.

    >>> import pytensor.tensor as pt
    >>> x = pt.vector("x")
    >>> program = xb.from_pytensor(pt.sum(x * x), {x: np.ones(3)})
    >>> [node.op for node in program.nodes]
    ['input', 'multiply', 'sum']
    """
    single = not isinstance(outputs, list | tuple)
    results: list[Any] = [outputs] if single else list(outputs)
    given = dict(inputs) if isinstance(inputs, Mapping) else dict.fromkeys(inputs)
    changed = dict(updates or {})
    _check(results, given, changed, draws)
    walked = [*results, *changed.values()]
    package = type(walked[0]).__module__.partition(".")[0] if walked else "pytensor"
    if draws is not None or rewrites not in (None, "none"):  # neither stops at given variables: they become leaves
        made = {one: one.type(one.name) for one in given if one.owner is not None}
        drawn = inputs_of(draws_of(walked, given) if draws else ())
        walked = copied(package, walked, {**made, **drawn})
        given = {made.get(one, one): example for one, example in given.items()} | dict.fromkeys(drawn.values())
    if rewrites not in (None, "none"):
        check_gradients(package, name, walked, given)
        walked = _rewritten(package, walked, rewrites)
    check_rows(package, name, walked, given)
    specs = [(one.name or "", *_spec(one, example)) for one, example in given.items()]

    def walk(*traced: Any) -> Any:
        inside = Outermost(dict(zip(given, traced, strict=True)), walked, gradients)
        inside.results(walked)
        for variable, new in zip(changed, walked[len(results) :], strict=True):
            update(inside.storage(variable), inside.array(new))
        values = [xb.asarray(inside.result(one)) for one in walked[: len(results)]]
        return values[0] if single else tuple(values)

    return program_of(name, specs, walk)


def _check(results: Sequence[Any], given: Mapping[Any, Any], changed: Mapping[Any, Any], draws: Any) -> None:
    """Raises `GraphError` for arguments of `from_graph` that are none."""
    for one in (*results, *given, *changed):
        if not (hasattr(one, "owner") and hasattr(one, "type")):
            raise GraphError(
                f"{one!r:.60} is no variable of PyTensor, Aesara or Theano; of a compiled function give the function"
            )
    for one in changed:
        if not hasattr(one, "get_value"):
            raise GraphError(f"updates: {one} is no shared variable")
    if draws not in (None, "inputs"):
        raise GraphError(f"draws={draws!r}: it is 'inputs', or None")


def _spec(variable: Any, example: Any) -> tuple[tuple[int, ...], DType]:
    """Shape and dtype of an input. Raises `GraphError` for a small dtype, and for an unknown length."""
    dtype = dtypes.held(variable.type.dtype)
    if variable.type.dtype in dtypes.SMALL:
        raise GraphError(f"the input {variable} has dtype {variable.type.dtype}, which arguments of a program have not")
    if isinstance(example, ArraySpec):
        return example.shape, dtype
    lengths = lengths_of(variable.type) if example is None else np.shape(example)
    if any(n is None for n in lengths):
        raise GraphError(
            f"the input {variable} has no fixed shape ({lengths}): give {{variable: array}}, or xb.ArraySpec(shape)"
        )
    return tuple(int(n) for n in lengths if n is not None), dtype


def _rewritten(package: str, outputs: Sequence[Any], rewrites: str) -> list[Any]:
    """The outputs after the framework's own rewrites of that name. Raises `GraphError` where there are none."""
    if rewrites not in INCLUDED:
        raise GraphError(f"rewrites={rewrites!r}: they are {', '.join(REWRITES)}")
    try:
        utils = import_module(f"{package}.graph.rewriting.utils")
    except ModuleNotFoundError:
        raise GraphError(f"{package} has no rewrites that are chosen by name: leave rewrites out") from None
    return list(utils.rewrite_graph(list(outputs), include=INCLUDED[rewrites]))
