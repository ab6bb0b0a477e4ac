"""What the commands print: tables on standard output, progress on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from xbackend.wording import visible

_SILENCE = 2.0  # seconds after which a log without a terminal gets the same kind of line again


def say(text: object, error: bool = False) -> None:
    """Print text, on standard error if it is one: names, paths and messages come from outside and are shown as text."""
    print(visible(text), file=sys.stderr if error else sys.stdout, flush=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table of text from anywhere; on no terminal it is as wide as its text."""
    headers, rows = list(map(visible, headers)), [list(map(visible, row)) for row in rows]
    console = Console(soft_wrap=not sys.stdout.isatty(), highlight=False)
    grid = Table(title=None if title is None else escape(visible(title)), title_justify="left")
    for header in headers:
        grid.add_column(escape(header), overflow="fold")
    for row in rows:
        grid.add_row(*map(escape, row))
    if not sys.stdout.isatty():
        console.width = max(80, 4 + sum(3 + max(map(_width, column)) for column in zip(headers, *rows, strict=True)))
    console.print(grid)


def _width(text: str) -> int:
    return max(map(len, text.split("\n")))


class Progress:
    """One line that says what is going on: a spinner on a terminal, else a line whenever there is news."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._last, self._said = "", 0.0
        self._status = self._console.status("") if self._console.is_terminal else None

    def __call__(self, text: str) -> None:
        """Show the text."""
        line = visible(text.strip()).replace("\n", " ")
        if self._status is not None:
            self._status.update(escape(line))
            return
        now = time.monotonic()
        # The same words with another number of seconds are no news for a log, unless it was silent for a while.
        words = line.rstrip("0123456789. s")
        if words != self._last or now - self._said >= 5 * _SILENCE:
            self._last, self._said = words, now
            print(line, file=sys.stderr, flush=True)


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress while the block runs."""
    shown = Progress()
    if shown._status is None:
        yield shown
        return
    with shown._status:
        yield shown
