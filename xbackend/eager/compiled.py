"""Compilation of a function for one kind of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.scopes import on
from xbackend.api.tracing.trace import ArraySpec, trace
from xbackend.api.tracing.tracer import current
from xbackend.devices import Device, DeviceMap
from xbackend.eager.array import ArrayKind, EagerArray
from xbackend.eager.reading import replaced
from xbackend.errors import PlacementError
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Program, Value, generate

Build = Callable[[Iterator[EagerArray]], Any]


class Compiles(Protocol):
    """The interface of a backend to the namespace."""

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
    """A compiled op: ``execute`` gives values of these ``kinds``, and ``build`` makes the result of their arrays
    (``next``: the only one). ``keep``: whether to cache it; ``used``: the number of its last call."""

    execute: Callable[..., Sequence[Any]]
    kinds: tuple[ArrayKind, ...]
    build: Build
    keep: bool = True
    used: int = 0


@dataclass(eq=False)
class Call:
    """A call to be traced, with traced arrays in place of its arrays, on ``device``.

    Tracing sets ``build`` and ``leaves``.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    device: str | None = None
    build: Build = next
    leaves: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.__name__ = self.name  # for the program and for errors

    def __call__(self, *traced: Array) -> Any:
        arrays = iter(traced)

        def filled(item: Any) -> Any:
            return replaced(item, EagerArray, lambda _: next(arrays))

        with on(self.device):
            args = [filled(a) for a in self.args]
            result = self.function(*args, **{k: filled(a) for k, a in self.kwargs.items()})
        if not _holds_arrays(result):
            # It depends only on shapes and dtypes, as a dtype does: nothing is computed.
            self.build = lambda arrays: result
            return ()
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


def compiled(backend: Compiles, call: Call, arrays: Sequence[EagerArray]) -> CompiledOp:
    """The function compiled for arguments of these kinds, on the device of the arrays.

    Raises `PlacementError` for arrays on several devices, and what tracing and compiling raise.
    """
    devices = list(dict.fromkeys(array._kind.device for array in arrays))
    if len(devices) > 1:
        raise PlacementError(
            f"{call.name} was given arrays on {' and '.join(devices)}; nothing is moved unasked: bring them together "
            f'with x.to_device("{devices[0]}")'
        )
    device = call.device = devices[0] if devices else None
    program: Program = trace(call, *[ArraySpec(array.shape, array.dtype) for array in arrays])
    if all(program.values[i].op in GENERATORS for i in program.outputs):
        return _made(backend, program, call.build)
    placed = [replace(node, device=device) if node.op == "input" else node for node in program.nodes]
    executable = backend.compile(replace(program, nodes=tuple(placed)))
    kinds = [_kind(program.values[i], d) for i, d in zip(program.outputs, executable.output_devices, strict=True)]
    # With one device, the placement is certain.
    execute = _checked(executable) if len(backend.devices) > 1 else executable.execute
    return CompiledOp(execute, tuple(kinds), call.build)


def _kind(node: Value, device: Device) -> ArrayKind:
    return ArrayKind(node.shape, node.dtype, str(device))


def _checked(executable: Any) -> Callable[..., Sequence[Any]]:
    """``executable.execute``; the first execution also checks the placement."""
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
    """Generators (zeros, a range, ...): made on the host and put on the device, with nothing compiled."""
    nodes = [program.values[i] for i in program.outputs]
    devices = [
        backend.default_device if n.device is None else DeviceMap().resolve(n.device, backend.devices, n.source)
        for n in nodes
    ]

    def execute(*values: Any) -> Sequence[Any]:
        return [backend.put(generate(n), d) for n, d in zip(nodes, devices, strict=True)]

    kinds = tuple(_kind(n, d) for n, d in zip(nodes, devices, strict=True))
    # A cached constant would keep all its elements in memory.
    return CompiledOp(execute, kinds, build, keep=all(n.op != "constant" for n in nodes))
