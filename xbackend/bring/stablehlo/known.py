"""Finds functions that JAX itself wrote into a file: some of `jax.numpy` and `jax.lax`, comparators of sorts, argmax
and argmin.

JAX of this process exports the function again, and the two have to be equal, op by op. Where they are not, as may be
for a file of another version, the ops of the file come in as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from xbackend.bring.stablehlo.modules import (
    CALLS,
    Module,
    attributes,
    dtype_of,
    is_array,
    is_made_by,
    kind,
    shape_of,
    symbol,
    within,
)
from xbackend.errors import GraphError

# Functions whose ops have no row or no gradient, each with the options that it may be called with.
_FUNCTIONS: dict[str, tuple[Mapping[str, Any], ...]] = {
    **dict.fromkeys(("solve", "inv", "det", "slogdet"), ({},)),
    "qr": ({}, {"mode": "complete"}, {"mode": "r"}),
    "svd": ({"full_matrices": False}, {}, {"compute_uv": False}),
    "searchsorted": ({}, {"side": "right"}),
    **dict.fromkeys(("lgamma_impl", "digamma_impl", "erf_inv_impl"), ({},)),  # of float32, from JAX 0.12 on
}
_LARGEST = 2000  # ops of such a function
# Functions of `jax.lax` that JAX writes out: their ops are many, and the gradient of some is NaN.
_WRITTEN_OUT = re.compile(r'loc\("[^"]*/(lgamma|digamma|erf_inv)"')


def of_jax(module: Module, name: str) -> Callable[..., Any] | None:
    """The function of JAX that equals a function of a file, and returns a list of results; `None` where none does."""
    called = re.sub(r"(_\d+)+$", "", name)
    if called not in _FUNCTIONS or module.size(name) > _LARGEST:
        return None
    own = module.functions[name]
    types = tuple((shape_of(one.type), dtype_of(one.type)) for one in own.regions[0].blocks[0].arguments)
    text = structure(own, module.functions)
    for function in _ways(called):
        if text == _function(called, function, types, module.platform):
            return function
    return None


@cache
def _ways(name: str) -> list[Callable[..., Any]]:
    """A function with each of its options, alone and under `jax.vmap`."""
    import jax

    places = [jax.numpy.linalg, jax.numpy, jax.lax]
    function = next(getattr(one, own) for own in [name.removesuffix("_impl")] for one in places if hasattr(one, own))
    each = [partial(function, **options) for options in _FUNCTIONS[name]]
    return [lambda *values, own=own: jax.tree.leaves(own(*values)) for one in each for own in (one, jax.vmap(one))]


@lru_cache(maxsize=64)
def _function(name: str, function: Callable[..., Any], types: tuple[Any, ...], platform: str) -> str:
    """The `structure` of a function of JAX as JAX exports it; empty where it does not take such arrays."""
    try:
        module = _exported(function, types, platform)
    except (TypeError, ValueError):
        return ""
    return structure(module.functions[name], module.functions) if name in module.functions else ""


def expansions(block: Any, module: Module) -> dict[Any, tuple[str, Any]]:
    """The functions of `jax.lax` that are written out in a block: by the last op of each, its name and its operand."""
    operations = [one.operation for one in block.operations]
    hints = [_WRITTEN_OUT.match(str(one.location)) for one in operations]
    found, place = dict[Any, tuple[str, Any]](), 0
    while place < len(operations):
        hint, width = hints[place], 1
        types = [one.type for one in operations[place].operands]
        if hint and types and is_array(types[0]):
            (type_, *_) = types
            text, width = _expansion(hint[1], (shape_of(type_), dtype_of(type_)), module.platform)
            each = operations[place : place + width]
            outer = _outer(each)
            if len(outer) == 1 and text == _listed(each, outer, module.functions):
                found[each[-1]] = (hint[1], outer[0])
            else:
                width = 1
        place += width
    return found


@lru_cache(maxsize=256)
def _expansion(name: str, type_: tuple[Any, ...], platform: str) -> tuple[str, int]:
    """The ops that JAX writes for a function of an array, and their number."""
    from jax import lax

    try:
        module = _exported(getattr(lax, name), (type_,), platform)
    except (TypeError, ValueError):  # it does not take this dtype
        return "", 1
    inner = [one.operation for one in module.functions["main"].regions[0].blocks[0].operations]
    each = [one for one in inner if kind(one) not in ("constant", "return")]
    return _listed(each, _outer(each), module.functions), len(each)


def _outer(operations: Sequence[Any]) -> list[Any]:
    """The operands of ops that are neither constants nor results of these ops."""
    own = {one for operation in operations for one in operation.results}
    read = dict.fromkeys(one for operation in operations for one in operation.operands)
    return [one for one in read if one not in own and not is_made_by(one, "constant")]


def keys_of(module: Module, operation: Any) -> int:
    """The number of operands by which an op sorts, if its comparator is that of `jax.lax.sort`; else 0."""
    types = tuple(((2,), dtype_of(one.type)) for one in operation.operands)
    text = structure(operation.regions[0], module.functions)
    counts = range(1, len(types) + 1)
    return next((n for n in counts if text == _region("sort", types, module.platform, num_keys=n)), 0)


def argument_of(module: Module, operation: Any) -> str:
    """``argmax`` or ``argmin`` for a reduction that is one, else empty."""
    if len(operation.operands) != 4 or len(list(operation.attributes["dimensions"])) != 1:
        return ""
    (axis,), (array, places) = operation.attributes["dimensions"], list(operation.operands)[:2]
    if not is_made_by(places, "iota") or int(places.owner.attributes["iota_dimension"]) != int(axis):
        return ""
    types, text = (((2,), dtype_of(array.type)),), _beginning(operation, module.functions)
    dtype = dtype_of(places.type)
    names = ("argmax", "argmin")
    return next((n for n in names if text == _region(n, types, module.platform, index_dtype=dtype, axis=0)), "")


def _beginning(operation: Any, functions: Mapping[str, Any]) -> str:
    """The `structure` of a reduction's region, with its initial values."""
    begins = [_outside(one) for one in list(operation.operands)[len(operation.operands) // 2 :]]
    return structure(operation.regions[0], functions) + " ".join(begins)


def is_cumlogsumexp(module: Module, operation: Any) -> bool:
    """Whether a reduction of windows joins them as that of `jax.lax.cumlogsumexp` does, from the same initial value."""
    types = (((2,), dtype_of(operation.operands[0].type)),)
    if not types[0][1].startswith("float"):
        return False
    text = _beginning(operation, module.functions)
    return text == _region("cumlogsumexp", types, module.platform, axis=0)


@lru_cache(maxsize=256)
def _region(name: str, types: tuple[Any, ...], platform: str, **options: Any) -> str:
    """The text of the comparator of `jax.lax.sort`, or of the reduction of another function of `jax.lax`; empty where
    JAX writes it otherwise."""
    from jax import lax

    called = getattr(lax, name)
    given = (lambda *values: called(values, **options)) if name == "sort" else (lambda *v: called(*v, **options))
    op = {"sort": "sort", "cumlogsumexp": "reduce_window"}.get(name, "reduce")
    module = _exported(given, types, platform)
    each = (one for function in module.functions.values() for one in within(function) if kind(one) == op)
    found = next(each, None)
    if found is None:
        return ""
    return structure(found.regions[0], module.functions) if op == "sort" else _beginning(found, module.functions)


def _exported(function: Callable[..., Any], types: tuple[Any, ...], platform: str) -> Module:
    """The module of a function, exported for arrays of these shapes and dtypes."""
    import jax

    examples = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in types]
    return Module(module_of(jax.export.export(jax.jit(function), platforms=[platform])(*examples)), platform)


def module_of(exported: Any) -> Any:
    """The module of an export. Raises `GraphError`."""
    from jax.interpreters import mlir

    try:
        with mlir.make_ir_context():
            return exported.mlir_module(serialized=False)
    except RuntimeError as error:  # jaxlib's own error, whose name depends on the version
        raise GraphError(f"what {exported.fun_name} was exported as is damaged: {str(error).splitlines()[0]}") from None


def structure(found: Any, functions: Mapping[str, Any]) -> str:
    """A region or a function as text without names and lines; a called function is there with its own text."""
    regions = found.regions if hasattr(found, "regions") else [found]
    return "\n".join(line for region in regions for line in _lines(region, {}, functions))


def _listed(operations: Sequence[Any], outer: Sequence[Any], functions: Mapping[str, Any]) -> str:
    """As `structure`, for a list of ops whose operands from outside are ``outer``."""
    numbers = {one: number for number, one in enumerate(outer)}
    return "\n".join(line for one in operations for line in _line(one, numbers, functions))


def _lines(region: Any, numbers: dict[Any, int], functions: Mapping[str, Any]) -> Iterator[str]:
    for block in region.blocks:
        yield f"({_put(block.arguments, numbers)})"
        for one in block.operations:
            yield from _line(one.operation, numbers, functions)


def _line(operation: Any, numbers: dict[Any, int], functions: Mapping[str, Any]) -> Iterator[str]:
    read, said = [str(numbers[one]) if one in numbers else _outside(one) for one in operation.operands], []
    for name in attributes(operation):
        called = symbol(operation, name) if name in CALLS else ""
        said.append(f"{name}={structure(functions[called], functions) if called else operation.attributes[name]}")
    yield f"{operation.name} {read} {said} -> {_put(operation.results, numbers)}"
    for inner in operation.regions:
        yield from _lines(inner, numbers, functions)


def _put(values: Any, numbers: dict[Any, int]) -> str:
    for one in values:
        numbers[one] = len(numbers)
    return ", ".join(f"{numbers[one]}: {one.type}" for one in values)


def _outside(value: Any) -> str:
    """The text of a value from outside of a region: a constant's numbers, else a text that equals no other."""
    return str(value.owner.attributes["value"]) if is_made_by(value, "constant") else f"other {hash(value)}"
