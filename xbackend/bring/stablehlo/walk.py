"""The walk through a module of StableHLO: every op becomes the call of `jax.lax` that its row makes of it.

Nothing of a file is executed: the calls are traced. A row names the attributes that it reads, or that do not change
values; another one is an error. What has no row is noted, and zeros stand for it, so that one error names all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from xbackend.bring.lines import is_users
from xbackend.bring.missing import Missing
from xbackend.errors import GraphError, XBackendError

Function = Callable[["Frame", Any, list[Any]], Any]
MOST = 500_000  # ops, those of functions once for each call: JAX traces some ten thousand a second
# They say where arrays are, how a compiler lays them out and how exact it may be.
_OF_PLACES = ("mhlo.sharding", "sdy.sharding", "sdy.sharding_rule", "mhlo.frontend_attributes", "mhlo.layout_mode")
_EXACT = ("result_accuracy", "precision_config")
_DTYPES = {
    **{"i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"},
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"ui{n}": f"uint{n}" for n in (8, 16, 32, 64)},
    **{"complex<f32>": "complex64", "complex<f64>": "complex128"},
}


@dataclass(frozen=True)
class Row:
    """What makes arrays of an op, and the attributes that it knows."""

    function: Function
    attributes: frozenset[str]


ROWS: dict[str, Row] = {}  # by the name of the op, without its dialect


def row(*names: str, attributes: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Make a function the row of these ops: it gets the frame, the op and its operands, and returns the result, or a
    list of all."""

    def put(function: Function) -> Function:
        ROWS.update(dict.fromkeys(names, Row(function, frozenset(attributes))))
        return function

    return put


class Module:
    """The functions of a module by name, and what no program has of those that were walked."""

    def __init__(self, module: Any, platform: str) -> None:
        from jax import lax

        self._owner = module  # its ops end with it
        self.lax, self.platform, self.missing = lax, platform, Missing("StableHLO")
        self.functions = {symbol(one): one.operation for one in module.body.operations if kind(one) == "func"}
        self._sizes: dict[str, int] = {}

    def called(self, name: str, values: Sequence[Any]) -> list[Any]:
        """The results of a function."""
        return Frame(self).results(self.functions[name].regions[0], values)

    def check_size(self, name: str) -> None:
        """Raises `GraphError` where a function has too many ops with those that it calls, or calls itself."""
        if self.size(name) > MOST:
            raise GraphError(f"the file has more than {MOST} ops, those of functions once for each call: export a part")

    def size(self, name: str, callers: tuple[str, ...] = ()) -> int:
        """The number of ops of a function, with those of functions that it calls."""
        if name in callers or name not in self.functions:
            raise GraphError(f"the file calls {name}, which {'calls itself' if name in callers else 'it has not'}")
        if name not in self._sizes:
            inner = [symbol(one, key) for one in within(self.functions[name]) for key in CALLS if key in one.attributes]
            size = sum(1 for _ in within(self.functions[name]))
            self._sizes[name] = size + sum(self.size(one, (*callers, name)) for one in inner)
        return self._sizes[name]


class Frame:
    """The values of one call of a function, those in its regions included: arrays that JAX traces, and constants of
    NumPy."""

    def __init__(self, module: Module) -> None:
        self.module, self.lax = module, module.lax
        self.values: dict[Any, Any] = {}

    def results(self, region: Any, arguments: Sequence[Any]) -> list[Any]:
        """What a region returns. Raises `GraphError`."""
        from xbackend.bring.stablehlo.known import expansions

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
        """The number that an operand is, where it is a constant; `None` for another one."""
        if value not in self.values and is_made_by(value, "constant"):
            return np.asarray(value.owner.attributes["value"])
        found = self.values.get(value)
        return found if isinstance(found, np.ndarray) else None

    def lacks(self, operation: Any, name: str, instead: str) -> list[Any]:
        """Note what no program has; returns zeros."""
        self.module.missing.add(name, line_of(operation), instead)
        types = [one.type for one in operation.results]
        return [self.lax.full(shape_of(one), 0, dtype_of(one)) if is_array(one) else None for one in types]

    def _made(self, operation: Any) -> list[Any]:
        from xbackend.bring.stablehlo.refused import instead_of

        name, line = kind(operation), line_of(operation)
        others = [str(one.type) for one in operation.results if not is_array(one.type)]
        if name not in ROWS or others:
            return self.lacks(operation, f"{name}{''.join(f' of {one}' for one in others)}", instead_of(name))
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
            if isinstance(error.__cause__, XBackendError):  # it has its place
                raise
            raise GraphError(f"{name}{f' (at {line})' if line else ''}: {error}") from error
        except (TypeError, ValueError, IndexError) as error:  # JAX's own checks
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise GraphError(f"{name}{f' (at {line})' if line else ''}: {said:.300}") from error
        return each


CALLS = ("callee", "decomposition")  # attributes that name a function


def kind(operation: Any) -> str:
    """The name of an op without its dialect."""
    return str(operation.operation.name).rpartition(".")[2]


def symbol(operation: Any, attribute: str = "sym_name") -> str:
    return str(operation.attributes[attribute]).strip('@"')


def attributes(operation: Any) -> list[str]:
    """The names of an op's attributes that may change values."""
    names = [getattr(one, "name", one) for one in operation.attributes]
    return sorted(one for one in names if one not in (*_OF_PLACES, *_EXACT) and not one.startswith("jax."))


def within(operation: Any) -> Iterator[Any]:
    """All ops in the regions of an op."""
    todo = [operation]
    while todo:
        inner = [one.operation for r in todo.pop().regions for block in r.blocks for one in block.operations]
        yield from inner
        todo += inner


def is_made_by(value: Any, name: str) -> bool:
    """Whether a value is the result of an op of this name, and no argument."""
    return hasattr(value.owner, "operands") and kind(value.owner) == name


def is_array(type_: Any) -> bool:
    return str(type_).startswith("tensor<") and not re.search(r"\?|quant", str(type_))


def shape_of(type_: Any) -> tuple[int, ...]:
    return tuple(type_.shape)


def dtype_of(type_: Any) -> str:
    """The name of the dtype, as JAX has it. Raises `GraphError`."""
    element = str(type_.element_type)
    if element not in _DTYPES:
        raise GraphError(f"dtype {element} has no place in a program: cast before it is exported")
    return _DTYPES[element]


def line_of(operation: Any) -> str:
    """``file:line`` where the user made an op, as the file remembers; empty where it does not."""
    found = re.findall(r'"([^"]+)":(\d+)', str(operation.location))
    return next((f"{file}:{number}" for file, number in found if is_users(file)), "")


_CALLED = lambda function, *arguments: function(*arguments)  # noqa: E731  # one line, which is all of its code


def _at(line: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function such that JAX notes the user's line for what is traced: from a frame that has it."""
    if not line:
        return function(*arguments)
    file, _, number = line.rpartition(":")
    code = _CALLED.__code__.replace(co_filename=file, co_firstlineno=int(number))
    return FunctionType(code, {})(function, *arguments)


def mapping(names: Mapping[str, str], attributes: Sequence[str] = ()) -> None:
    """Rows of ops that are one function of `jax.lax`, by its name."""

    def made(function: str) -> Function:
        return lambda frame, operation, values: getattr(frame.lax, function)(*values)

    for name, function in names.items():
        row(name, attributes=attributes)(made(function))
