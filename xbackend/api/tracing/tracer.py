"""The program under construction, and the one that is at work in a thread."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, ClassVar

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.lines import caller
from xbackend.api.tracing.scopes import no_scopes, place
from xbackend.errors import ArgumentError, TraceError
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType, as_dtype
from xbackend.program.host import gibibytes, host_array
from xbackend.program.ops import OPS
from xbackend.program.program import Nodes
from xbackend.program.shared import SharedVariable

# A program goes to its worker as one text, with its constants in base64: less than 2 GiB, the longest that is sent.
CONSTANT_BYTES = 1 << 30


class Tracer:
    """The program under construction. ``body``: it is that of a loop or a choice, and runs on one device."""

    body: ClassVar[bool] = False

    def __init__(self) -> None:
        self.written = Nodes()
        self.values = self.written.values
        self.shared_nodes: dict[str, tuple[int, SharedVariable]] = {}
        self.updates: dict[int, int] = {}
        self.constant_bytes = 0
        self.open = True

    def emit(self, op: str, inputs: Sequence[Array], params: Mapping[str, Any], device: str | None = None) -> Array:
        """Add a node with one result, and casts around one that is `Op.widened`."""
        row = OPS[op]
        if row.widened and (own := inputs[0].dtype).is_unsigned:
            # Arithmetic of integers is that of their last bits, which are the same in a wider dtype (two's complement).
            wide = [self.emit("astype", (array,), {"dtype": own.wider}, device) for array in inputs]
            result = self.emit(op, wide, params, device)
            # Positions have the same dtype whatever the inputs have.
            (kept,) = row.results([Aval(array.shape, DType.int32) for array in inputs], params)
            return self.emit("astype", (result,), {"dtype": own}, device) if kept.dtype is DType.int32 else result
        (array,) = self.emit_all(op, inputs, params, device)
        return array

    def emit_all(
        self, op: str, inputs: Sequence[Array], params: Mapping[str, Any], device: str | None = None
    ) -> list[Array]:
        """Add a node; its results, whose shapes and dtypes the op's own rule infers."""
        values, positions = self.values, []
        for array in inputs:
            positions.append(self.own(array).node)
        results = OPS[op].results([values[i].aval for i in positions], params)
        outputs = self.written.add(op, positions, params, results, device=place(device), source=caller())
        return [Array(self, i, *aval) for i, aval in zip(outputs, results, strict=True)]

    def own(self, array: Array) -> Array:
        """What stands for the array in this program: itself.

        Raises `TraceError` for an array that is not of this program, or of one that is traced already.
        """
        if not array._tracer.open:
            raise TraceError(
                f"{array!r} of a program that is already traced was used again; arrays do not outlive their function"
            )
        if array._tracer is not self:
            raise TraceError(f"{array!r} of another program was used; pass it as an argument instead")
        return array

    def array(self, value: Any, dtype: DType | None = None) -> Array:
        """Anything that a user may write for an array, as one of this program.

        Raises `TraceError` for arrays of other programs, `DTypeError` for what has no supported dtype, `ShapeError`
        for nested lists of different lengths, `ArgumentError` for constants that a program cannot hold.
        """
        if isinstance(value, Array):
            return self.own(value)
        if isinstance(value, SharedVariable):
            return self.shared(value)
        host = host_array(value, "a constant", dtype)
        as_dtype(host.dtype, f"{value!r:.60}: dtype")
        self.count_constant(host.nbytes)
        constant = host.copy()
        constant.flags.writeable = False
        return self.emit("constant", (), {"value": constant})

    def count_constant(self, size: int) -> None:
        """Raises `ArgumentError` where a constant of so many bytes is more than the program can hold."""
        self.constant_bytes += size
        if self.constant_bytes > CONSTANT_BYTES:
            raise ArgumentError(
                f"the constants of the program come to {gibibytes(self.constant_bytes)}, and a program holds "
                f"{gibibytes(CONSTANT_BYTES)} of them: make a large array an argument of the function, or xb.shared"
            )

    def check_update(self, variable: SharedVariable) -> None:
        """Raises `SharedVariableError` where no shared variable can be updated."""

    def shared(self, variable: SharedVariable) -> Array:
        if variable.uid not in self.shared_nodes:
            params = {"name": variable.name, "shape": variable.shape, "dtype": variable.dtype}
            aval = Aval(variable.shape, variable.dtype)
            # Its place is its own, whatever scope happens to use it first.
            (position,) = self.written.add("shared", (), params, [aval], device=variable.device, source=caller())
            self.shared_nodes[variable.uid] = (position, variable)
        position, _ = self.shared_nodes[variable.uid]
        return Array(self, position, variable.shape, variable.dtype)


def returned(tracer: Tracer, value: Any) -> Array:
    """What a traced function returned in the place of an array, as one. Raises `TraceError`."""
    if value is None:
        raise TraceError("the function returns None in place of an array")
    if isinstance(value, Iterator | Awaitable | Set) or is_dataclass(value):
        raise TraceError(
            f"the function returns {type(value).__name__} in place of an array; return arrays, or tuples, lists "
            "and dictionaries of them: tuple(...) of a generator, dataclasses.asdict(...) of a dataclass"
        )
    return tracer.array(value)


class _AtWork(threading.local):
    """The tracers of this thread, the innermost last."""

    def __init__(self) -> None:
        self.tracers: list[Tracer] = []


_at_work = _AtWork()


def current(wanted: str = "this function") -> Tracer:
    """The tracer at work in this thread. Raises `TraceError` when there is none."""
    if not _at_work.tracers:
        raise TraceError(
            f"{wanted} works on traced arrays: call it inside of a function that is given to xb.trace or to "
            "backend.compile"
        )
    return _at_work.tracers[-1]


@contextmanager
def at_work(tracer: Tracer) -> Iterator[None]:
    """Nodes made in this thread are the tracer's; after it no more are."""
    _at_work.tracers.append(tracer)
    try:
        with no_scopes():
            yield
    finally:
        _at_work.tracers.pop()
        tracer.open = False
