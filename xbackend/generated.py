"""Python made at run time, compiled under a file name by which tracebacks show its lines."""

from __future__ import annotations

import itertools
import linecache
import weakref
from typing import Any

_numbers = itertools.count(1)


def execute(title: str, text: str, names: dict[str, Any]) -> str:
    """Execute source text in ``names``. Returns the name of its file, in which the title is escaped to one line."""
    file = f"<xbackend {next(_numbers)}: {repr(title)[1:-1]}>"
    exec(compile(text, file, "exec"), names)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return file


def show_with(owner: object, file: str) -> None:
    """Show the lines of a file in tracebacks as long as an object exists."""
    weakref.finalize(owner, linecache.cache.pop, file, None).atexit = False
