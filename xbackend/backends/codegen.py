"""Straight-line Python generated at run time, compiled under a file name that tracebacks can show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from xbackend import generated


class FunctionSource:
    """The source of a function, written line by line; straight-line code adds no cost to its calls. ``title`` names it
    in tracebacks, ``objects`` are the names that its lines may use beside parameters and builtins."""

    def __init__(self, title: str, parameters: Iterable[str]) -> None:
        self.title = title
        self.objects: dict[str, Any] = {}
        self._lines = [f"def execute({', '.join(parameters)}):"]
        self._depth = 1

    def line(self, text: str, comment: str = "") -> None:
        """Add a statement. The comment may come from outside: it is escaped to one line."""
        self._lines.append("    " * self._depth + text + (f"  # {repr(comment)[1:-1]}" if comment else ""))

    def block(self, header: str) -> None:
        """Begin a block: further lines are inside of this statement, until its `end`."""
        self.line(header)
        self._depth += 1

    def end(self) -> None:
        """End the innermost block."""
        self._depth -= 1

    def step(self, made: str, call: str, last: Iterable[str], comment: str = "") -> None:
        """Add a call, assign its results to ``made``, and drop the values of the names ``last`` after it."""
        self.line(f"{made} = {call}" if made else call, comment)
        dropped = " = ".join(last)
        if dropped:
            self.line(f"{dropped} = None")

    def compile(self) -> Callable[..., Any]:
        """The function. Its source is available to tracebacks as long as it exists."""
        names = dict(self.objects)
        file = generated.execute(self.title, "\n".join([*self._lines, ""]), names)
        function: Callable[..., Any] = names.pop("execute")
        generated.show_with(function, file)
        return function
