"""One function for one kind of arguments: traced, compiled, and executed as often as it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.scopes import device as scope
from xbackend.api.tracing.trace import ArraySpec, trace
from xbackend.api.tracing.tracer import current
from xbackend.devices import Device, DeviceMap
from xbackend.eager.array import ArrayKind, EagerArray
from xbackend.eager.reading import filled
from xbackend.errors import PlacementError
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Program, Value, generate

Build = Callable[[Iterator[EagerArray]], Any]


class Compiles(Protocol):
    """What the namespace needs of a backend."""

    name: str
    devices: tuple[Device, ...]

    @property
    def default_device(self) -> Device: ...

    def check_open(self) -> None: ...

    def put(self, array: np.ndarray, device: Device) -> Any: ...

    def get(self, value: Any) -> np.ndarray: ...

    def compile(self, function: Any) -> Any: ...


@dataclass(slots=True)
class CompiledOp:
    """An op of the backend: takes values, gives values of these ``kinds``, of which ``build`` makes the result: the
    array itself where it is ``next``. ``keep``: whether it is worth to be kept; ``used``: the number of its last call.
    """

    execute: Callable[..., Sequence[Any]]
    kinds: tuple[ArrayKind, ...]
    build: Build
    keep: bool = True
    used: int = 0


@dataclass(slots=True)
class Known:
    """A result that depends on shapes and dtypes only, such as a dtype: nothing is computed."""

    result: Any
    used: int = 0


@dataclass(eq=False)
class Call:
    """A call on its way to the tracer: the function with traced arrays in the place of its arrays.

    ``device`` is where it is to run; ``known`` or ``build`` and ``leaves`` are what tracing finds.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    device: str | None = None
    known: Known | None = None
    build: Build = next
    leaves: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.__name__ = self.name  # as which the program, and errors, name it

    def __call__(self, *traced: Array) -> Any:
        arrays = iter(traced)
        with nullcontext() if self.device is None else scope(self.device):
            args = [filled(a, arrays) for a in self.args]
            result = self.function(*args, **{k: filled(a, arrays) for k, a in self.kwargs.items()})
        if not _holds_arrays(result):
            self.known = Known(result)
            return current().array(0)
        self.build = self._taken_apart(result)
        return tuple(self.leaves)

    def _taken_apart(self, result: Any) -> Build:
        if isinstance(result, tuple | list):
            parts = [self._taken_apart(part) for part in result]
            make = getattr(type(result), "_make", type(result))
            return lambda arrays: make([part(arrays) for part in parts])
        self.leaves.append(current().array(result))
        return next


def _holds_arrays(result: Any) -> bool:
    if isinstance(result, tuple | list):
        return any(map(_holds_arrays, result))
    return isinstance(result, Array)


def common_device(name: str, arrays: Sequence[EagerArray]) -> str | None:
    """The device of all of the arrays, `None` where there is no array. Raises `PlacementError`."""
    devices = list(dict.fromkeys(array._kind.device for array in arrays))
    if len(devices) > 1:
        raise PlacementError(
            f"{name} was given arrays on {' and '.join(devices)}; nothing is moved unasked: bring them together with "
            f'x.to_device("{devices[0]}")'
        )
    return devices[0] if devices else None


def compiled(backend: Compiles, call: Call, arrays: Sequence[EagerArray]) -> CompiledOp | Known:
    """The function compiled for arguments like these, which runs where its arrays are.

    Raises what tracing and compiling raise, `PlacementError`.
    """
    device = call.device = common_device(call.name, arrays)
    program: Program = trace(call, *[ArraySpec(array.shape, array.dtype) for array in arrays])
    if call.known is not None:
        return call.known
    if all(program.values[i].op in GENERATORS for i in program.outputs):
        return _made(backend, program, call.build)
    placed = [replace(node, device=device) if node.op == "input" else node for node in program.nodes]
    executable = backend.compile(replace(program, nodes=tuple(placed)))
    kinds = [_kind(program.values[i], d) for i, d in zip(program.outputs, executable.output_devices, strict=True)]
    execute = executable.execute
    if len(backend.devices) > 1:  # else there is no other device that it could have run on
        execute = _checked(executable)
    return CompiledOp(execute, tuple(kinds), call.build)


def _kind(node: Value, device: Device) -> ArrayKind:
    return ArrayKind(node.shape, node.dtype, str(device))


def _checked(executable: Any) -> Callable[..., Sequence[Any]]:
    """What executes, and the first time sees that all of it ran on its device."""
    seen = False

    def execute(*values: Any) -> Sequence[Any]:
        nonlocal seen
        results: Sequence[Any] = executable.execute(*values)
        if not seen:
            executable.backend.synchronize(results)
            executable.placement.check()
            seen = True
        return results

    return execute


def _made(backend: Compiles, program: Program, build: Build) -> CompiledOp:
    """Arrays made of nothing (zeros, a range, ...): made on the host and put on the device, with nothing compiled."""
    nodes = [program.values[i] for i in program.outputs]
    devices = [
        backend.default_device if n.device is None else DeviceMap().resolve(n.device, backend.devices, n.source)
        for n in nodes
    ]

    def execute(*values: Any) -> Sequence[Any]:
        return [backend.put(generate(n), d) for n, d in zip(nodes, devices, strict=True)]

    kinds = tuple(_kind(n, d) for n, d in zip(nodes, devices, strict=True))
    # A constant holds all of its elements.
    return CompiledOp(execute, kinds, build, keep=all(n.op != "constant" for n in nodes))
