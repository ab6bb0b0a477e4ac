"""Tracing: the user's function is called once with traced arrays, and what it does to them is written down."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from xbackend.devices import Device, canonical
from xbackend.errors import ArgumentError, DTypeError, ShapeError, SharedVariableError, TraceError, XBackendError
from xbackend.program import structure
from xbackend.program.array import Array
from xbackend.program.dtypes import DType, as_dtype
from xbackend.program.host import check_plain, gibibytes, host_array
from xbackend.program.ops import OPS, Aval
from xbackend.program.program import Node, Program
from xbackend.program.shared import SharedVariable

# Frames in these places are no user's: this package, what calls it for the user, and NumPy, whose functions call it
# back.
_HERE = Path(__file__).parent
_BESIDE = (str(_HERE.parent / name) for name in ("devices.py", "backends", "strategies"))
_NOT_THE_USERS = (str(_HERE), *_BESIDE, str(Path(np.__file__).parent))
_own_code: dict[CodeType, bool] = {}
# A program goes to its worker as one text, with its constants in base64: less than 2 GiB, the longest that is sent.
CONSTANT_BYTES = 1 << 30


class _State(threading.local):
    def __init__(self) -> None:
        self.tracers: list[Tracer] = []
        self.scopes: list[str] = []
        self.renamings: list[Mapping[str, str]] = []


_state = _State()


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype of an argument, for tracing without data."""

    shape: tuple[int, ...]
    dtype: DType

    def __init__(self, shape: int | Sequence[int], dtype: Any = DType.float64) -> None:
        lengths = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in lengths):
            raise ShapeError(f"shape {shape!r} is not a tuple of non-negative integers")
        object.__setattr__(self, "shape", lengths)
        object.__setattr__(self, "dtype", as_dtype(dtype))


def _is_own(code: CodeType) -> bool:
    own = _own_code.get(code)
    if own is None:
        own = _own_code[code] = code.co_filename.startswith(_NOT_THE_USERS)
    return own


def _caller() -> str:
    """``file:line`` of the innermost frame outside of this package: the user's line."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _is_own(frame.f_code):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _raised_at(traceback: TracebackType | None, function: Callable[..., Any]) -> str:
    """``file:line`` of the user's innermost line that an error passed through, else of the function itself.

    For what has no line of the user's (a strategy's function, a program), the line that had it traced.
    """
    where = ""
    while traceback is not None:
        if not _is_own(traceback.tb_frame.f_code):
            where = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    code = getattr(inspect.unwrap(function), "__code__", None)
    if where:
        return where
    return _caller() if code is None or _is_own(code) else f"{code.co_filename}:{code.co_firstlineno}"


class Tracer:
    """The program under construction."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.shared_nodes: dict[str, tuple[int, SharedVariable]] = {}
        self.updates: dict[int, int] = {}
        self.constant_bytes = 0
        self.open = True

    def emit(self, op: str, inputs: Sequence[Array], params: Mapping[str, Any], device: str | None = None) -> Array:
        """Add a node, its shape and dtype inferred by the op's own rule."""
        nodes = self.nodes
        positions = []
        for array in inputs:
            self.check_own(array)
            positions.append(array.node)
        shape, dtype = OPS[op].infer([nodes[i].aval for i in positions], params)
        nodes.append(Node(op, tuple(positions), params, shape, dtype, place(device), _caller()))
        return Array(self, len(nodes) - 1, shape, dtype)

    def check_own(self, array: Array) -> None:
        """Raises `TraceError` for an array that is not of this program, or of one that is traced already."""
        if not array._tracer.open:
            raise TraceError(
                f"{array!r} of a program that is already traced was used again; arrays do not outlive their function"
            )
        if array._tracer is not self:
            raise TraceError(f"{array!r} of another program was used; pass it as an argument instead")

    def array(self, value: Any, dtype: DType | None = None) -> Array:
        """Anything that a user may write for an array, as one of this program.

        Raises `TraceError` for arrays of other programs, `DTypeError` for what has no supported dtype, `ShapeError`
        for nested lists of different lengths, `ArgumentError` for constants that a program cannot hold.
        """
        if isinstance(value, Array):
            self.check_own(value)
            return value
        if isinstance(value, SharedVariable):
            return self.shared(value)
        found = host_array(value, "a constant", dtype)
        as_dtype(found.dtype, f"{value!r:.60} has a dtype that")
        self.constant_bytes += found.nbytes
        if self.constant_bytes > CONSTANT_BYTES:
            raise ArgumentError(
                f"the constants of the program come to {gibibytes(self.constant_bytes)}, and a program holds "
                f"{gibibytes(CONSTANT_BYTES)} of them: make a large array an argument of the function, or xb.shared"
            )
        constant = found.copy()
        constant.flags.writeable = False
        return self.emit("constant", (), {"value": constant})

    def shared(self, variable: SharedVariable) -> Array:
        if variable.uid not in self.shared_nodes:
            params = {"name": variable.name, "shape": variable.shape, "dtype": variable.dtype}
            position = len(self.nodes)
            # Its place is its own, whatever scope happens to use it first.
            self.nodes.append(Node("shared", (), params, variable.shape, variable.dtype, variable.device, _caller()))
            self.shared_nodes[variable.uid] = (position, variable)
        position, _ = self.shared_nodes[variable.uid]
        return Array(self, position, variable.shape, variable.dtype)


def current(wanted: str = "this function") -> Tracer:
    """The tracer at work in this thread. Raises `TraceError` when there is none."""
    if not _state.tracers:
        raise TraceError(
            f"{wanted} works on traced arrays: call it inside of a function that is given to xb.trace or to "
            "backend.compile"
        )
    return _state.tracers[-1]


def _meant(name: str) -> str:
    """The device or logical name that a written one stands for inside of the scopes of `renamed`.

    The innermost scope comes first, so that what it names is renamed by those around it.
    """
    for names in reversed(_state.renamings):
        name = names.get(name, name)
    return name


def place(asked: str | None) -> str | None:
    """What a node asks for: what is written for it, else what the innermost scope says."""
    if asked is not None:
        return _meant(asked)
    return _state.scopes[-1] if _state.scopes else None


class device:
    """Ops made inside of the scope are to run on this device (``gpu:1``) or logical device (``dev1``).

    Scopes nest, the innermost counts; one may be entered again. Raises `DeviceSpellingError` for text that is neither.
    """

    def __init__(self, name: str | Device) -> None:
        self.name = canonical(name)

    def __enter__(self) -> None:
        _state.scopes.append(_meant(self.name))

    def __exit__(self, *exception: object) -> None:
        _state.scopes.pop()


class renamed:
    """Devices asked for inside of the scope, by their own or by logical names, are others: ``{"dev0": "dev2"}``.

    Names that are not in the mapping stay as they are. Scopes of `device` entered outside stay, too.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = {canonical(name): canonical(other) for name, other in names.items()}

    def __enter__(self) -> None:
        _state.renamings.append(self.names)

    def __exit__(self, *exception: object) -> None:
        _state.renamings.pop()


def update(variable: SharedVariable, expression: Any) -> None:
    """The shared variable takes the value of ``expression``, once per execution, after the outputs.

    Shapes and dtypes are equal; a Python number is spread over the variable. Outputs and all updates read the old
    values, as in Theano. Raises `SharedVariableError`, `ShapeError`, `DTypeError`.
    """
    tracer = current("xb.update")
    if not isinstance(variable, SharedVariable):
        raise SharedVariableError(
            f"xb.update was given {variable!r:.80}, which is not a shared variable; make one with xb.shared"
        )
    target = tracer.shared(variable)
    if target.node in tracer.updates:
        raise SharedVariableError(f"{variable!r} is updated twice in one program; combine the expressions")
    if isinstance(expression, bool | int | float):
        from xbackend.program.functions import full

        expression = full(variable.shape, expression, dtype=variable.dtype)
    value = tracer.array(expression)
    if value.shape != variable.shape:
        raise ShapeError(f"{variable!r} cannot take a value of shape {value.shape}")
    if value.dtype != variable.dtype:
        raise DTypeError(f"{variable!r} cannot take a value of dtype {value.dtype}; convert it with xb.astype")
    tracer.updates[target.node] = value.node


def _spec(value: Any, name: str) -> Aval:
    if isinstance(value, ArraySpec):
        return Aval(value.shape, value.dtype)
    if isinstance(value, SharedVariable):
        raise ArgumentError(f"argument {name!r} is a shared variable; use it inside of the function instead")
    check_plain(value, f"argument {name!r}")
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        value = host_array(value, f"argument {name!r}")
    return Aval(tuple(int(n) for n in value.shape), as_dtype(value.dtype, f"argument {name!r}: dtype"))


def _argument_names(function: Callable[..., Any], arguments: Sequence[Any], static: Mapping[str, Any]) -> list[str]:
    if not callable(function):
        raise ArgumentError(f"{function!r} is not a function; give xb.trace a function and example arguments")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some callables written in C have none; their arguments are numbered
        return [f"x{i}" for i in range(len(arguments))]
    try:
        signature.bind(*arguments, **static)
    except TypeError as error:
        name = getattr(function, "__name__", "the function")
        raise ArgumentError(
            f"{name}{signature} was given {len(arguments)} arrays and {dict(static)}: {error}"
        ) from None
    names = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"x{i}" for i in range(len(arguments))]


def trace(function: Callable[..., Any], /, *arguments: Any, **static: Any) -> Program:
    """Call the function once with traced arrays and return the program that it describes.

    Each positional argument is an array, a number or an `ArraySpec`, of which only shape and dtype count; keyword
    arguments are passed to the function as they are. The function returns an array or nested tuples, lists and
    dictionaries of arrays, or nothing if it updates shared variables.

    Raises `ArgumentError`, `ShapeError`, `DTypeError`, `DeviceError`, `TraceError`, with the user's file and line.
    """
    names = _argument_names(function, arguments, static)
    tracer = Tracer()
    outside = _state.scopes, _state.renamings
    _state.scopes, _state.renamings = [], []
    _state.tracers.append(tracer)
    try:
        inputs = []
        for value, name in zip(arguments, names, strict=True):
            shape, dtype = _spec(value, name)
            inputs.append(tracer.emit("input", (), {"name": name, "shape": shape, "dtype": dtype}))
        result = function(*inputs, **static)
        outputs, form = _outputs(tracer, result)
    except RecursionError as error:
        raise TraceError(
            "the function calls itself without end: a traced value has no elements to stop at, so let it stop at a "
            f"Python number, such as a keyword argument (at {_raised_at(error.__traceback__, function)})"
        ) from None
    except XBackendError as error:
        where = _raised_at(error.__traceback__, function)
        if where in str(error):
            raise
        raise type(error)(f"{error} (at {where})") from error
    finally:
        _state.tracers.pop()
        _state.scopes, _state.renamings = outside
        tracer.open = False
    return _pruned(getattr(function, "__name__", "program"), tracer, len(inputs), outputs, form)


def _outputs(tracer: Tracer, result: Any) -> tuple[list[int], Any]:
    if result is None:
        if not tracer.updates:
            raise TraceError("the function returns nothing and updates nothing; return the arrays that it computes")
        return [], {"tuple": []}

    def leaf(value: Any) -> int:
        if value is None:
            raise TraceError("the function returns None in place of an array")
        if isinstance(value, Iterator) or is_dataclass(value):
            raise TraceError(
                f"the function returns {type(value).__name__} in place of an array; return arrays, or tuples, lists "
                "and dictionaries of them: tuple(...) of a generator, dataclasses.asdict(...) of a dataclass"
            )
        return tracer.array(value).node

    return structure.flatten(result, leaf)


def _pruned(name: str, tracer: Tracer, inputs: int, outputs: list[int], form: Any) -> Program:
    """The program without the nodes that nothing needs, and those that change nothing; its inputs stay."""
    nodes = tracer.nodes
    needed = bytearray(len(nodes))
    for i in (*range(inputs), *outputs, *tracer.updates, *tracer.updates.values()):
        needed[i] = 1
    # What a gradient is taken with respect to is not the array that it was made of, nor is a result, with respect to
    # which another program may take one.
    own = set(outputs)
    for i in range(len(nodes) - 1, -1, -1):
        if needed[i]:
            for j in nodes[i].inputs:
                needed[j] = 1
            if nodes[i].op == "grad":
                own.add(nodes[i].inputs[1])
    position: dict[int, int] = {}
    kept: list[Node] = []
    for i, node in enumerate(nodes):
        if needed[i]:
            if node.op == "reshape" and node.shape == nodes[node.inputs[0]].shape and i not in own:
                position[i] = position[node.inputs[0]]
                continue
            position[i] = len(kept)
            moved = tuple([position[j] for j in node.inputs])
            if moved != node.inputs:
                node = Node(node.op, moved, node.params, node.shape, node.dtype, node.device, node.source)
            kept.append(node)
    shared = {position[i]: v for i, v in tracer.shared_nodes.values() if needed[i]}
    updates = {position[t]: position[e] for t, e in tracer.updates.items()}
    return Program(name, tuple(kept), tuple(range(inputs)), tuple(position[o] for o in outputs), form, shared, updates)
