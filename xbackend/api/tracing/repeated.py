"""Checks that a function is traced to the same program again: random numbers, counters and kept arrays show."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.lines import raised_at
from xbackend.api.tracing.trace import trace
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.errors import TraceError
from xbackend.program.program import Node, Program
from xbackend.wording import join

TWICE = 1.0  # seconds; functions that take longer to trace are not traced again
_CURE = "it is traced once, and that would stay: give what changes as an argument, or keep it with xb.shared"


def trace_twice(function: Callable[..., Any], /, *arguments: Any, **static: Any) -> TracedProgram:
    """The traced function. If tracing is fast (`TWICE`), the function is checked by `check_repeated`.

    Raises what `xbackend.trace` and `check_repeated` raise.
    """
    begun = time.perf_counter()
    program = trace(function, *arguments, **static)
    if time.perf_counter() - begun < TWICE:
        check_repeated(program, function, *arguments, **static)
    return program


def check_repeated(program: Program, function: Callable[..., Any], /, *arguments: Any, **static: Any) -> None:
    """Raises `TraceError`, with the line, unless the function is traced to ``program`` again."""
    try:
        again = trace(function, *arguments, **static)
    except Exception as error:
        what = f"{type(error).__name__}: {error} (at {raised_at(error.__traceback__, function)})"
        raise TraceError(f"{program.name} fails when it is traced again, with {what}; {_CURE}") from error
    said = "" if again.fingerprint == program.fingerprint else _difference(program, again)
    if said:
        raise TraceError(f"{program.name} is another program when it is traced again: {said}; {_CURE}")


@contextmanager
def noticing_kept(say: Callable[[str], None]) -> Iterator[None]:
    """Warn by ``say`` of traced arrays that functions traced in the block keep beyond their call."""
    before = set(map(id, _left()))
    yield
    gc.collect()
    kept = [array for array in _left() if id(array) not in before]
    places = dict.fromkeys(_made_at(array) for array in kept)
    if places:
        say(
            f"warning: traced arrays are kept beyond their function: {join(places)}; it is traced, not called, so that "
            "calls add none: return what is to be looked at"
        )


def _left() -> list[Array]:
    """The arrays of traces that have ended."""
    return [one for one in gc.get_objects() if type(one) is Array and not one._tracer.open]


def _made_at(array: Array) -> str:
    node = array._tracer.values[array.node]
    return f"the argument {node.params['name']}" if node.op == "input" else f"{node.op} of {node.source}"


def _difference(one: Program, other: Program) -> str:
    """The first difference, with the user's line; empty where only names of shared variables differ."""
    for ours, theirs in zip(one.nodes, other.nodes, strict=False):
        if (ours.op, ours.results, ours.device) != (theirs.op, theirs.results, theirs.device):
            return f"{_described(ours)} is {_described(theirs)} then (at {theirs.source})"
        if ours.inputs != theirs.inputs:
            return f"{ours.op} takes other arrays (at {theirs.source})"
        if said := _of_params(ours, theirs):
            return said
    for position, variable in one.shared.items():
        then = other.shared.get(position)
        if then is not None and not _same(variable.value, then.value):
            return f"{variable!r} begins with {_shown(variable.value)}, then with {_shown(then.value)}"
    if len(one.nodes) != len(other.nodes):
        longer = max(one.nodes, other.nodes, key=len)
        more = longer[min(len(one.nodes), len(other.nodes))]
        return f"it has {len(one.nodes)} ops, then {len(other.nodes)}, the first more a {more.op} (at {more.source})"
    return "" if (one.outputs, one.updates) == (other.outputs, other.updates) else "it returns other arrays"


def _of_params(ours: Node, theirs: Node) -> str:
    for name, value in ours.params.items():
        then = theirs.params.get(name)
        if isinstance(value, Program) and isinstance(then, Program):
            if said := _difference(value, then):
                return said
        elif not _same(value, then) and (ours.op, name) != ("shared", "name"):
            return f"{ours.op} has {name} {_shown(value)}, then {_shown(then)} (at {theirs.source})"
    return ""


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return (one.shape, one.dtype, one.tobytes()) == (other.shape, other.dtype, other.tobytes())
    return repr(one) == repr(other)


def _described(node: Node) -> str:
    results = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in node.results)
    return f"{node.op} {results}" + (f" on {node.device}" if node.device else "")


def _shown(value: Any) -> str:
    return f"{value!s:.40}" if isinstance(value, np.ndarray) else f"{value!r:.40}"
