"""The result of tracing: a program to call inside of another one, to store and to draw."""

from __future__ import annotations

from typing import Any

from xbackend.api.tracing.inlining import inline
from xbackend.drawing.forms import draw
from xbackend.program import serialization
from xbackend.program.program import Program


class TracedProgram(Program):
    """A `Program` with the methods for its users (`xbackend.Program`)."""

    def __call__(self, *arrays: Any) -> Any:
        """The results for the arrays, inside of a function being traced, which gets the program's nodes.

        To execute it, compile it: ``backend.compile(program)``. Raises `TraceError` outside of tracing,
        `ArgumentError`.
        """
        return inline(self, arrays)

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

    @staticmethod
    def of(program: Program) -> TracedProgram:
        """The same program, with its cached properties."""
        made = TracedProgram.__new__(TracedProgram)
        vars(made).update(vars(program))
        return made
