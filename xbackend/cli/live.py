"""A terminal's view of a session that measures: a live table of all candidates, and below it the current step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from xbackend.cli.console import shown
from xbackend.measure.standing import Standing, Watch
from xbackend.report.said import text
from xbackend.scripting.progress import Beating, Log, one_line
from xbackend.wording import counted, visible

Say = Callable[[str], None]
SECONDS = 0.25  # between two drawings: to draw takes a thousandth, on the cores that are measured


@contextmanager
def progress() -> Iterator[tuple[Say, Watch]]:
    """Shows, while the block runs, the current step and the progress of the candidates.

    On a terminal that is a table with a line below it; in a log, a line for each step and each candidate's first
    number.
    """
    console = Console(stderr=True, highlight=False)
    if not shown.progress:
        yield lambda _: None, lambda *_: None
        return
    if not console.is_terminal:
        log = Log()
        with Beating(log) as beating:
            yield beating, beating.watched(_numbers(log))  # not `beating`: only what compiles is counted in seconds
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        table = _Table(live)
        with Beating(table.say) as beating:
            yield beating, beating.watched(table.show)


def _numbers(say: Say) -> Watch:
    """Prints the first number of each candidate, or why it has none."""
    told: set[tuple[str, str]] = set()

    def show(task: str, rows: Sequence[Standing]) -> None:
        for row in rows:
            if (row.seconds is not None or row.failed) and (task, row.name) not in told:
                told.add((task, row.name))
                number = f"first number of {row.name}: {text.time(row.seconds)}"
                say(f"{row.name}: {row.state}: {row.failed}" if row.failed else number)

    return show


class _Table:
    def __init__(self, live: Live) -> None:
        self._live, self._line, self._drawn = live, "", 0.0
        self._task, self._rows = "", list[Standing]()

    def say(self, line: str) -> None:
        self._line = one_line(line)
        self._draw()

    def show(self, task: str, rows: Sequence[Standing]) -> None:
        self._task, self._rows = task, list(rows)
        self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._drawn < SECONDS:
            return
        self._drawn = now
        self._live.update(
            Group(*([table(self._task, self._rows)] if self._rows else []), escape(self._line)), refresh=True
        )


def table(task: str, rows: Sequence[Standing]) -> Table:
    """The standings as a table of at most 80 columns."""
    grid = Table(title=escape(visible(task)), title_justify="left", width=80)
    grid.add_column("backend", overflow="fold", ratio=1)
    for name in ("time", "95 % interval", "measured"):
        grid.add_column(name, justify="right", no_wrap=True)
    unit = text.time_unit(row.seconds for row in rows)
    for row in rows:
        measured = (
            row.state if row.seconds is None else f"{counted(row.processes, 'process', 'processes')}, {row.visits} x"
        )
        width = f"± {row.width:.1%}" if row.width < 10 else text.NOTHING
        grid.add_row(escape(visible(row.name)), text.time(row.seconds, unit), width, measured)
    return grid
