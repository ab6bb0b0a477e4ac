"""The tracer, which records a program, and the active one of a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.lines import caller
from xbackend.api.tracing.scopes import entered, place
from xbackend.errors import ArgumentError, TraceError
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType, as_dtype
from xbackend.program.host import gibibytes, host_array
from xbackend.program.ops import OPS
from xbackend.program.program import Nodes
from xbackend.program.shared import SharedVariable

# A program is sent to its worker as one text, with constants in base64. This keeps it below the limit of 2 GiB.
CONSTANT_BYTES = 1 << 30


class Tracer:
    """A program under construction. ``body`` names the loop or the choice whose body it is; a body runs on one device.
    ``pure`` describes the function being called, for the error of an update in it; empty if updates are allowed."""

    body = pure = ""

    def __init__(self) -> None:
        self.written = Nodes()
        self.values = self.written.values
        self.shared_nodes: dict[str, tuple[int, SharedVariable]] = {}
        self.updates: dict[int, int] = {}
        self.constant_bytes = 0
        self.open = True
        self.source = ""  # the line of all nodes; empty for the caller's

    @contextmanager
    def without_updates(self, said: str) -> Iterator[None]:
        """Refuse updates in the block; ``said`` describes it in the error."""
        before, self.pure = self.pure, said
        try:
            yield
        finally:
            self.pure = before

    def emit(self, op: str, inputs: Sequence[Array], params: Mapping[str, Any], device: str | None = None) -> Array:
        """Add a node with one result, with casts around an op that is `Op.widened`."""
        row = OPS[op]
        if row.widened and (own := inputs[0].dtype).is_unsigned:
            # The low bits of integer arithmetic are the same in a wider dtype (two's complement).
            wide = [self.emit("astype", (array,), {"dtype": own.wider}, device) for array in inputs]
            result = self.emit(op, wide, params, device)
            # Positions keep their own dtype for inputs of any dtype.
            (kept,) = row.results([Aval(array.shape, DType.int32) for array in inputs], params)
            return self.emit("astype", (result,), {"dtype": own}, device) if kept.dtype is DType.int32 else result
        (array,) = self.emit_all(op, inputs, params, device)
        return array

    def emit_all(
        self, op: str, inputs: Sequence[Array], params: Mapping[str, Any], device: str | None = None
    ) -> list[Array]:
        """Add a node. Returns its results, with shapes and dtypes by the op's rule."""
        values, positions = self.values, []
        for array in inputs:
            positions.append(self.own(array).node)
        results = OPS[op].results([values[i].aval for i in positions], params)
        outputs = self.written.add(op, positions, params, results, device=place(device), source=self.source or caller())
        return [Array(self, i, *aval) for i, aval in zip(outputs, results, strict=True)]

    def own(self, array: Array) -> Array:
        """The array in this program: itself.

        Raises `TraceError` for an array of another program or of a finished trace.
        """
        if not array._tracer.open:
            raise TraceError(
                f"{array!r} of a program that is already traced was used again; arrays do not outlive their function"
            )
        if array._tracer is not self:
            raise TraceError(f"{array!r} of another program was used; pass it as an argument instead")
        return array

    def array(self, value: Any, dtype: DType | None = None) -> Array:
        """A user's value as an array of this program.

        Raises `TraceError` for arrays of other programs, `DTypeError` for unsupported dtypes, `ShapeError` for nested
        lists of different lengths, `ArgumentError` for constants that a program cannot hold.
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
        """Raises `ArgumentError` where a constant of ``size`` bytes exceeds the limit of the program."""
        self.constant_bytes += size
        if self.constant_bytes > CONSTANT_BYTES:
            raise ArgumentError(
                f"the constants of the program come to {gibibytes(self.constant_bytes)}, and a program holds "
                f"{gibibytes(CONSTANT_BYTES)} of them: make a large array an argument of the function, or xb.shared"
            )

    def shared(self, variable: SharedVariable) -> Array:
        if variable.uid not in self.shared_nodes:
            aval, line = Aval(variable.shape, variable.dtype), self.source or caller()
            params = {"name": variable.name, **aval._asdict()}
            # It keeps its own device, whatever scope uses it first.
            (position,) = self.written.add("shared", (), params, [aval], device=variable.device, source=line)
            self.shared_nodes[variable.uid] = (position, variable)
        position, _ = self.shared_nodes[variable.uid]
        return Array(self, position, variable.shape, variable.dtype)


def returned(tracer: Tracer, value: Any) -> Array:
    """A value that a traced function returned, as an array. Raises `TraceError`."""
    if value is None:
        raise TraceError("the function returns None in place of an array")
    if isinstance(value, Iterator | Awaitable | Set) or is_dataclass(value):
        raise TraceError(
            f"the function returns {type(value).__name__} in place of an array; return arrays, or tuples, lists "
            "and dictionaries of them: tuple(...) of a generator, dataclasses.asdict(...) of a dataclass"
        )
    return tracer.array(value)


def current(wanted: str = "this function") -> Tracer:
    """The active tracer of this thread. Raises `TraceError` when there is none."""
    if not entered.tracers:
        raise TraceError(
            f"{wanted} works on traced arrays: call it inside of a function that is given to xb.trace or to "
            "backend.compile"
        )
    tracer: Tracer = entered.tracers[-1]
    return tracer


@contextmanager
def at_work(tracer: Tracer) -> Iterator[None]:
    """Make the tracer the active one of this thread, without the open scopes, and close it at the end."""
    outside = entered.scopes, entered.renamings
    entered.scopes, entered.renamings = [], []
    entered.tracers.append(tracer)
    try:
        yield
    finally:
        entered.tracers.pop()
        entered.scopes, entered.renamings = outside
        tracer.open = False
