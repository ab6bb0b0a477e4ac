"""The walk through a module of StableHLO: for every op, its row calls functions of `jax.lax`.

Nothing of a file is executed: the calls are traced. A row names the attributes that it reads, or that do not change
values; any other one is an error. An op without a row is noted and gives zeros, so that one error names all such ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from xbackend.bring.stablehlo.known import expansions
from xbackend.bring.stablehlo.modules import Module, attributes, dtype_of, is_array, is_made_by, kind, line_of, shape_of
from xbackend.bring.stablehlo.refused import REFUSED
from xbackend.errors import GraphError, XBackendError

Function = Callable[["Frame", Any, list[Any]], Any]


@dataclass(frozen=True)
class OpRow:
    """The function that makes the results of an op, and the attributes that it knows."""

    function: Function
    attributes: frozenset[str]


ROWS: dict[str, OpRow] = {}  # by the name of the op, without its dialect


def row(*names: str, attributes: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Make a function the row of these ops. It gets the frame, the op and its operands, and returns the result, or a
    list of all results."""

    def put(function: Function) -> Function:
        ROWS.update(dict.fromkeys(names, OpRow(function, frozenset(attributes))))
        return function

    return put


def called(module: Module, name: str, values: Sequence[Any]) -> list[Any]:
    """The results of a function of the module for these arguments. Raises `GraphError`."""
    return Frame(module).results(module.functions[name].regions[0], values)


class Frame:
    """The values of one call of a function and of its regions: arrays that JAX traces, and constants as arrays of
    NumPy."""

    def __init__(self, module: Module) -> None:
        self.module, self.lax = module, module.lax
        self.values: dict[Any, Any] = {}

    def results(self, region: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a region for these arguments. Raises `GraphError`."""
        (block,) = region.blocks
        self.values.update(zip(block.arguments, arguments, strict=True))
        written_out = expansions(block, self.module)
        for one in block.operations:
            operation = one.operation
            if kind(operation) == "return":
                return [self.values[value] for value in operation.operands]
            self.values.update(zip(operation.results, self._made(operation), strict=True))
            if operation in written_out:
                name, value = written_out[operation]
                self.values[operation.result] = _at(line_of(operation), getattr(self.lax, name), self.values[value])
        raise GraphError("a region of the file has no end: it is damaged")

    def region(self, operation: Any, number: int) -> Callable[..., tuple[Any, ...]]:
        """A region of an op as a function."""
        return lambda *arguments: tuple(self.results(operation.regions[number], arguments))

    def known(self, value: Any) -> np.ndarray | None:
        """The value of a constant operand; `None` for another one."""
        if value not in self.values and is_made_by(value, "constant"):
            return np.asarray(value.owner.attributes["value"])
        found = self.values.get(value)
        return found if isinstance(found, np.ndarray) else None

    def lacks(self, operation: Any, name: str, instead: str) -> list[Any]:
        """Note an op that no program has. Returns zeros for its results."""
        self.module.missing.add(name, line_of(operation), instead)
        types = [one.type for one in operation.results]
        return [self.lax.full(shape_of(one), 0, dtype_of(one)) if is_array(one) else None for one in types]

    def _made(self, operation: Any) -> list[Any]:
        name, line = kind(operation), line_of(operation)
        others = [str(one.type) for one in operation.results if not is_array(one.type)]
        if name not in ROWS or others:
            return self.lacks(operation, f"{name}{''.join(f' of {one}' for one in others)}", REFUSED.get(name, ""))
        used = ROWS[name]
        unknown = [f"{n}={operation.attributes[n]!s:.60}" for n in attributes(operation) if n not in used.attributes]
        try:
            if unknown:
                raise GraphError(f"the attribute {', '.join(unknown)} has no row")
            operands = [self.values[one] for one in operation.operands]
            made = _at(line, used.function, self, operation, operands)
            each = list(made) if isinstance(made, list | tuple) else [made]
            for one, value in zip(operation.results, each, strict=True):
                if (tuple(value.shape), str(value.dtype)) != (shape_of(one.type), dtype_of(one.type)):
                    said = f"{value.dtype}{list(value.shape)}, and the file has {one.type}"
                    raise GraphError(f"its row made {said}: report this")
        except XBackendError as error:
            if isinstance(error.__cause__, XBackendError):  # it names its op
                raise
            raise GraphError(f"{name}{f' (at {line})' if line else ''}: {error}") from error
        except (TypeError, ValueError, LookupError) as error:  # JAX's own checks, and an attribute that is not there
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise GraphError(f"{name}{f' (at {line})' if line else ''}: {said:.300}") from error
        return each


_CALLED = lambda function, *arguments: function(*arguments)  # noqa: E731  # its code is one line, so that `_at` can move it


def _at(line: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function from a frame at the user's line: JAX notes the line of what it traces."""
    if not line:
        return function(*arguments)
    file, _, number = line.rpartition(":")
    code = _CALLED.__code__.replace(co_filename=file, co_firstlineno=int(number))
    return FunctionType(code, {})(function, *arguments)


def mapping(names: Mapping[str, str]) -> None:
    """Add rows of ops that are one function of `jax.lax`, by its name."""

    def made(function: str) -> Function:
        return lambda frame, operation, values: getattr(frame.lax, function)(*values)

    for name, function in names.items():
        row(name)(made(function))
