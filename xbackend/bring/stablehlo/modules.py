"""A module of StableHLO: its functions, and how its ops, types and locations are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from xbackend.bring.lines import is_users
from xbackend.bring.missing import Missing
from xbackend.errors import GraphError

MOST = 500_000  # ops, those of functions once for each call: JAX traces about ten thousand a second
# Attributes that say where arrays are, how a compiler lays them out and how exact it may be.
_OF_PLACES = ("mhlo.sharding", "sdy.sharding", "sdy.sharding_rule", "mhlo.frontend_attributes", "mhlo.layout_mode")
_EXACT = ("result_accuracy", "precision_config")
_DTYPES = {
    **{"i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"},
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"ui{n}": f"uint{n}" for n in (8, 16, 32, 64)},
    **{"complex<f32>": "complex64", "complex<f64>": "complex128"},
}
CALLS = ("callee", "decomposition")  # attributes that name a function


class Module:
    """The functions of a module by name, and the ops without a row in those that were walked."""

    def __init__(self, module: Any, platform: str) -> None:
        from jax import lax

        self._owner = module  # keeps its ops alive
        self.lax, self.platform, self.missing = lax, platform, Missing("StableHLO")
        self.functions = {symbol(one): one.operation for one in module.body.operations if kind(one) == "func"}
        self._sizes: dict[str, int] = {}

    def check_size(self) -> None:
        """Raises `GraphError` where the module has too many ops, or a function that calls itself."""
        if self.size("main") > MOST:
            raise GraphError(f"the file has more than {MOST} ops, those of functions once for each call: export a part")

    def size(self, name: str, callers: tuple[str, ...] = ()) -> int:
        """The number of ops of a function, with those of its callees for each call. Raises `GraphError`."""
        if name in callers or name not in self.functions:
            raise GraphError(f"the file calls {name}, which {'calls itself' if name in callers else 'it has not'}")
        if name not in self._sizes:
            inner = [symbol(one, key) for one in within(self.functions[name]) for key in CALLS if key in one.attributes]
            size = sum(1 for _ in within(self.functions[name]))
            self._sizes[name] = size + sum(self.size(one, (*callers, name)) for one in inner)
        return self._sizes[name]


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
    """All ops in the regions of an op, and in theirs."""
    todo = [operation]
    while todo:
        inner = [one.operation for r in todo.pop().regions for block in r.blocks for one in block.operations]
        yield from inner
        todo += inner


def is_made_by(value: Any, name: str) -> bool:
    """Whether a value is the result of an op of this name."""
    return hasattr(value.owner, "operands") and kind(value.owner) == name


def is_array(type_: Any) -> bool:
    return str(type_).startswith("tensor<") and not re.search(r"\?|quant", str(type_))


def shape_of(type_: Any) -> tuple[int, ...]:
    return tuple(type_.shape)


def dtype_of(type_: Any) -> str:
    """The name that JAX has for the dtype of an array. Raises `GraphError`."""
    element = str(type_.element_type)
    if element not in _DTYPES:
        raise GraphError(f"dtype {element} has no place in a program: cast before it is exported")
    return _DTYPES[element]


def line_of(operation: Any) -> str:
    """``file:line`` of the user's code that made an op; empty where the file has none."""
    found = re.findall(r'"([^"]+)":(\d+)', str(operation.location))
    return next((f"{file}:{number}" for file, number in found if is_users(file) and file != "-"), "")
