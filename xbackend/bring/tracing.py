"""The program traced by a walk through a framework's graph."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
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
        plain = re.sub(r"\W", "_", name or f"x{number}").strip("_") or f"x{number}"
        plain = f"x_{plain}" if plain[0].isdigit() else plain
        found.append(plain if plain not in found else f"{plain}_{number}")
    return found
