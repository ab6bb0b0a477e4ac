"""Tracing: the user's function is called once with traced arrays, which record its operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import xbackend.api.functions  # noqa: F401  # fills FUNCTIONS
from xbackend.api import linalg
from xbackend.api.control_flow import cond, scan, while_loop
from xbackend.api.functions import fft
from xbackend.api.functions.collectives import all_reduce
from xbackend.api.tracing.casting import shape as as_shape
from xbackend.api.tracing.gradient import grad
from xbackend.api.tracing.lines import raised_at
from xbackend.api.tracing.pruning import pruned
from xbackend.api.tracing.state import update
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.api.tracing.tracer import Tracer, at_work, returned
from xbackend.errors import ArgumentError, DTypeError, GraphError, TraceError, XBackendError
from xbackend.habits import of_call
from xbackend.program import structure
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType, as_dtype
from xbackend.program.host import check_plain, host_array
from xbackend.program.operators import FUNCTIONS
from xbackend.program.shared import SharedVariable
from xbackend.wording import counted

_OTHERS = {f.__name__: f for f in (all_reduce, cond, grad, scan, update, while_loop)}


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype of an argument, for tracing without data.

    >>> xb.ArraySpec((2, 3), "float32")
    ArraySpec(shape=(2, 3), dtype=<DType.float32: 'float32'>)
    """

    shape: tuple[int, ...]
    dtype: DType

    def __init__(self, shape: int | Sequence[int], dtype: Any = DType.float64) -> None:
        object.__setattr__(self, "shape", as_shape(shape))
        object.__setattr__(self, "dtype", as_dtype(dtype))


def _spec(value: Any, name: str) -> Aval:
    if isinstance(value, ArraySpec):
        return Aval(value.shape, value.dtype)
    if isinstance(value, SharedVariable):
        raise ArgumentError(f"argument {name!r} is a shared variable; use it inside of the function instead")
    check_plain(value, f"argument {name!r}")
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        given, value = value, host_array(value, f"argument {name!r}")
        if value.dtype == object:
            raise DTypeError(
                f"argument {name!r}: dtype object is not supported; the dtypes are {', '.join(DType)}, and an argument "
                f"is one array: give what is inside of this {type(given).__name__} as arguments of their own"
            )
    return Aval(tuple(int(n) for n in value.shape), as_dtype(value.dtype, f"argument {name!r}: dtype"))


def _argument_names(function: Callable[..., Any], arguments: Sequence[Any], static: Mapping[str, Any]) -> list[str]:
    if not callable(function):
        raise ArgumentError(f"{function!r} is not a function; give xb.trace a function and example arguments")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # callables in C without a signature: arguments are numbered
        return [f"x{i}" for i in range(len(arguments))]
    try:
        signature.bind(*arguments, **static)
    except TypeError as error:
        name = getattr(function, "__name__", "the function")
        options = "".join(f", {one}={value!r:.40}" for one, value in static.items())
        given = f"{counted(len(arguments), 'array')}{options}"
        raise ArgumentError(f"{name}{signature} was given {given}: {error}") from None
    names = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"x{i}" for i in range(len(arguments))]


def trace(function: Callable[..., Any], /, *arguments: Any, **static: Any) -> TracedProgram:
    """Call the function once with traced arrays and return the program that it describes.

    Positional arguments are arrays, numbers or `ArraySpec`: only shape and dtype count. Keyword arguments are passed as
    they are. The function returns an array or nested tuples, lists and dictionaries of arrays, or nothing if it updates
    shared variables.

    Random numbers, counters and lists of the function keep the values of this one call. Commands call it twice to find
    them (`xbackend.api.tracing.repeated.check_repeated`), which would double the time here.

    Raises `ArgumentError`, `ShapeError`, `DTypeError`, `DeviceError`, `TraceError`, with the user's file and line.

    >>> program = xb.trace(lambda x, *, scale: xb.sum(scale * x), xb.ArraySpec((2, 3), "float32"), scale=2.0)
    >>> [node.op for node in program.nodes]
    ['input', 'constant', 'multiply', 'sum']
    """
    names = _argument_names(function, arguments, static)
    tracer = Tracer()
    try:
        with at_work(tracer):
            inputs = [
                tracer.emit("input", (), {"name": name, **_spec(value, name)._asdict()})
                for value, name in zip(arguments, names, strict=True)
            ]
            result = function(*inputs, **static)
            if result is None and not tracer.updates:
                raise TraceError("the function returns nothing and updates nothing; return the arrays that it computes")
            leaves, form = structure.flatten(() if result is None else result, partial(returned, tracer))
    except RecursionError as error:
        raise TraceError(
            "the function calls itself without end: a traced value has no elements to stop at, so let it stop at a "
            f"Python number, such as a keyword argument (at {raised_at(error.__traceback__, function)})"
        ) from None
    except GraphError:  # it has the line of the graph, and no function of the user was called
        raise
    except XBackendError as error:
        where = raised_at(error.__traceback__, function)
        if where in str(error):
            raise
        raise type(error)(f"{error} (at {where})") from error
    except TypeError as error:
        own = {f"{m.__name__.rpartition('.')[2]}.{n}": getattr(m, n) for m in (linalg, fft) for n in m.__all__}
        if not (said := of_call(error, {**_OTHERS, **FUNCTIONS, **own})):
            raise
        raise ArgumentError(f"{said} (at {raised_at(error.__traceback__, function)})") from error
    # Without dead and trivial nodes; the inputs stay.
    outputs = [leaf.node for leaf in leaves]
    kept = (*range(len(inputs)), *outputs, *tracer.updates, *tracer.updates.values())
    left, position = pruned(tracer.written, kept, outputs)
    shared = {position[i]: v for i, v in tracer.shared_nodes.values() if i in position}
    updates = {position[t]: position[e] for t, e in tracer.updates.items()}
    results, name = tuple(position[o] for o in outputs), getattr(function, "__name__", "program")
    return TracedProgram.of(left.program(name, range(len(inputs)), results, form, shared, updates))
