"""The output of commands: tables on standard output, progress on standard error."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from xbackend.scripting.progress import Beating, Log, one_line
from xbackend.wording import visible

_NAME = 24  # letters of a name that is not broken to make a table narrower


@dataclass
class Shown:
    """Which output is printed: ``text``, the result for a reader, and ``progress``."""

    text: bool = True
    progress: bool = True


shown = Shown()


@contextmanager
def showing(text: bool, progress: bool) -> Iterator[None]:
    """In the block only these are printed; errors always are."""
    before, shown.text, shown.progress = Shown(**vars(shown)), text, progress
    try:
        yield
    finally:
        shown.text, shown.progress = before.text, before.progress


def say(text: object, error: bool = False) -> None:
    """Print text, on standard error if it is one: names, paths and messages come from outside and are shown as text."""
    if not (error or shown.text):
        return
    # In one piece: threads may say something at the same time.
    print(f"{visible(text)}\n", end="", file=sys.stderr if error else sys.stdout, flush=True)


def say_lines(lines: Iterable[str]) -> None:
    """Print each line, as `say`."""
    for line in lines:
        say(line)


def width() -> int | None:
    """How wide lines are to be: as the terminal, or as ``COLUMNS`` says; `None` where nothing says so."""
    return max(shutil.get_terminal_size().columns, 40) if sys.stdout.isatty() or "COLUMNS" in os.environ else None


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table of text from anywhere; on no terminal it is as wide as ``COLUMNS`` says, else as its text."""
    if not shown.text:
        return
    headers, rows = list(map(visible, headers)), [list(map(visible, row)) for row in rows]
    console = Console(soft_wrap=not sys.stdout.isatty(), highlight=False)
    grid = Table(title=None if title is None else escape(visible(title)), title_justify="left")
    for number, column in enumerate(zip(headers, *rows, strict=True)):
        # The first column has names, which stay in one piece.
        whole = None if number else min(max(map(_width, column)), _NAME)
        grid.add_column(escape(column[0]), overflow="fold", min_width=whole)
    for row in rows:
        grid.add_row(*map(escape, row))
    if not sys.stdout.isatty():
        natural = max(80, 4 + sum(3 + max(map(_width, column)) for column in zip(headers, *rows, strict=True)))
        console.width = min(natural, width() or natural)
    console.print(grid)


def _width(text: str) -> int:
    return max(map(len, text.split("\n")))


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Shows progress while the block runs: on a spinner's line, or in a log as new lines."""
    console = Console(stderr=True, highlight=False)
    if not shown.progress:
        yield lambda _: None
        return
    if not console.is_terminal:
        with Beating(Log()) as beating:
            yield beating
        return
    with console.status("") as status, Beating(lambda text: status.update(escape(one_line(text)))) as beating:
        yield beating
