"""The program traced by a walk through a framework's graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from keyword import iskeyword
from typing import Any

from xbackend.api.tracing.trace import ArraySpec, trace
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType


def program_of(
    name: str, inputs: Sequence[tuple[str, tuple[int, ...], DType]], walk: Callable[..., Any]
) -> TracedProgram:
    """The program of ``walk``, which is called with a traced array for each input (name, shape, dtype).

    Raises the errors of `xbackend.trace`, and `GraphError` for functions nested too deeply and arrays too large for
    the memory.
    """
    names = identifiers([one for one, *_ in inputs])
    parameters = [inspect.Parameter(one, inspect.Parameter.POSITIONAL_ONLY) for one in names]

    def function(*arrays: Any) -> Any:
        return walk(*arrays)

    (function.__name__,) = identifiers([name])
    function.__dict__["__signature__"] = inspect.Signature(parameters)
    try:
        return trace(function, *(ArraySpec(shape, dtype) for _, shape, dtype in inputs))
    except RecursionError:
        raise GraphError(f"the functions of {name} call themselves, or one another in too long a row") from None
    except MemoryError as error:
        raise GraphError(f"{name} has an array that does not fit into memory: {error}") from None


def identifiers(names: Sequence[str]) -> list[str]:
    """Each name as a Python identifier, no two the same."""
    found: list[str] = []
    for number, name in enumerate(names):
        plain = "".join(sign if f"x{sign}".isidentifier() else "_" for sign in name).strip("_") or f"x{number}"
        plain = plain if plain.isidentifier() and not iskeyword(plain) else f"x_{plain}"
        while plain in found:
            plain += f"_{number}"
        found.append(plain)
    return found
