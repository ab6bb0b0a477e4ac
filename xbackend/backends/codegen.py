"""Straight-line Python made at run time, compiled under a file name of its own that tracebacks can show."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable, Iterable
from typing import Any

_numbers = itertools.count(1)


class Source:
    """A function while it is written, line by line. Without a loop a step costs its own call and nothing else.

    ``title`` says in tracebacks whose it is; ``objects`` are what its lines may name beside parameters and builtins.
    """

    def __init__(self, title: str, parameters: Iterable[str]) -> None:
        self.title = title
        self.objects: dict[str, Any] = {}
        self._lines = [f"def execute({', '.join(parameters)}):"]
        self._depth = 1

    def line(self, text: str, comment: str = "") -> None:
        """A statement. The comment may come from outside: nothing in it becomes code."""
        self._lines.append("    " * self._depth + text + (f"  # {_plain(comment)}" if comment else ""))

    def block(self, header: str) -> None:
        """All further lines stand inside of this statement, until its `end`."""
        self.line(header)
        self._depth += 1

    def end(self) -> None:
        """The lines of the innermost block are written."""
        self._depth -= 1

    def step(self, made: str, call: str, last: Iterable[str], comment: str = "") -> None:
        """A call, the names that its results get, and the names whose values are dropped after it."""
        self.line(f"{made} = {call}" if made else call, comment)
        dropped = " = ".join(last)
        if dropped:
            self.line(f"{dropped} = None")

    def compile(self) -> Callable[..., Any]:
        """The function. Its lines are there for tracebacks as long as it is."""
        file, text = f"<xbackend {next(_numbers)}: {_plain(self.title)}>", "\n".join([*self._lines, ""])
        names = dict(self.objects)
        exec(compile(text, file, "exec"), names)
        function: Callable[..., Any] = names.pop("execute")
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        weakref.finalize(function, linecache.cache.pop, file, None).atexit = False
        return function


def _plain(text: str) -> str:
    """The text on one line, whatever it holds."""
    return repr(text)[1:-1]
