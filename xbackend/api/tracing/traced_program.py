"""The result of tracing: a program to call inside of another one, to store and to draw."""

from __future__ import annotations

from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import copied
from xbackend.api.tracing.scopes import place
from xbackend.api.tracing.state import update
from xbackend.api.tracing.tracer import Tracer, current
from xbackend.drawing.forms import draw
from xbackend.errors import ArgumentError
from xbackend.program import serialization
from xbackend.program.analyses import everywhere
from xbackend.program.program import Program, Value
from xbackend.program.structure import unflatten
from xbackend.wording import join


class TracedProgram(Program):
    """A `Program` with the methods for its users (`xbackend.Program`).

    >>> program = xb.trace(lambda x: x + 1.0, np.ones(2))
    >>> again = xb.Program.of(xb.Program.from_json(program.to_json()))
    >>> again.fingerprint == program.fingerprint
    True
    >>> again.draw("dot").splitlines()[0]
    'digraph "<lambda>" {'
    """

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The results for the arrays, inside of a function being traced, which gets the program's nodes.

        The nodes keep their source lines and devices; nodes without a device take the scope's. Shared variables stay
        the same, and updates become updates of the program being traced. To execute it, compile it:
        ``backend.compile(program)``. Raises `ArgumentError` for arguments of other shapes or dtypes and
        for constants that come to more than a program holds, `SharedVariableError` for a second update, `TraceError`
        outside of tracing.
        """
        tracer = current(f"a call of the program {self.name}")
        if named:
            raise ArgumentError(f"{self!r} takes arrays by position, in this order, not {next(iter(named))}=...")
        if len(arrays) != len(self.inputs):
            raise ArgumentError(f"{self!r} takes {len(self.inputs)} arrays, {len(arrays)} were given")
        tracer.count_constant(sum(n.params["value"].nbytes for n in everywhere(self) if n.op == "constant"))
        inside: dict[int, Array] = {}
        targets = {i for node in self.nodes if node.op == "grad" for i in node.inputs[1:]}
        for i, value in zip(self.inputs, arrays, strict=True):
            inside[i] = _argument(tracer, self.values[i], tracer.array(value), i in targets)
        for node in self.nodes:
            if node.op == "shared":
                inside[node.outputs[0]] = tracer.shared(self.shared[node.outputs[0]])
            elif node.op != "input":
                inputs = [inside[j].node for j in node.inputs]
                moved = tracer.written.add(
                    node.op, inputs, node.params, node.results, device=place(node.device), source=node.source
                )
                for k, i, aval in zip(node.outputs, moved, node.results, strict=True):
                    inside[k] = Array(tracer, i, *aval)
        for target, expression in self.updates.items():
            update(self.shared[target], inside[expression])
        return unflatten(self.structure, [inside[i] for i in self.outputs])

    def to_json(self, values: bool = True) -> str:
        """The program as JSON text; without ``values`` the initial values of shared variables are left out."""
        return serialization.to_json(self, values)

    @staticmethod
    def from_json(text: str | bytes) -> TracedProgram:
        """Read a program back. Raises `ProgramFormatError`, `ProgramVersionError`."""
        return TracedProgram.of(serialization.from_json(text))

    def draw(self, form: str = "mermaid") -> str:
        """The program drawn by device: ``form`` is ``mermaid``, ``dot`` or ``svg``."""
        return draw(self, form)

    def _repr_html_(self) -> str:
        from xbackend.drawing.markup import SMALL, shown

        arguments = [f"{self.values[i].params['name']}: {self.values[i].aval}" for i in self.inputs]
        facts = {
            "arguments": join(arguments),
            "results": join(str(self.values[i].aval) for i in self.outputs),
            "shared variables": join(map(repr, self.shared.values())),
            "devices": join(self.logical_devices),
            "nodes": len(self.nodes),
            "operations": f"{self.operations.total:,}",
            "fingerprint": self.fingerprint[:12],
        }
        title = f"program {self.name}"
        return shown(title, facts, self.draw("svg") if len(self.nodes) <= SMALL else "", title)

    @staticmethod
    def of(program: Program) -> TracedProgram:
        """The same program, with its cached properties."""
        made = TracedProgram.__new__(TracedProgram)
        vars(made).update(vars(program))
        return made


def _argument(tracer: Tracer, node: Value, given: Array, has_gradient: bool) -> Array:
    """The array for an input of the program. Raises `ArgumentError`."""
    if (given.shape, given.dtype) != (node.shape, node.dtype):
        raise ArgumentError(
            f"argument {node.params['name']!r} is {node.aval}, was given {given!r}; shapes and dtypes are fixed when a "
            "program is traced"
        )
    if not has_gradient:
        return given
    # A gradient inside of the program is with respect to this input alone. Another argument may depend on the same
    # array, so the input must be a separate one.
    return copied(given) if node.device is None else tracer.emit("transfer", (given,), {}, node.device)
