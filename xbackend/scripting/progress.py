"""Progress without a terminal: lines in a log, and in a notebook a line with a bar."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from xbackend.wording import visible

if TYPE_CHECKING:
    from xbackend.measure.standing import Standing, Watch

_LONG = 2.0  # seconds of one line after which they are counted
_TICK = 1.0  # seconds from one time that they are counted to the next
_DRAWN = 0.25  # seconds from one drawing of a notebook's line to the next
_SILENCE = 10.0  # seconds after which a log gets the same kind of line again


class Beating:
    """Passes lines on to ``show``, in the block that it is entered for. A line that nothing followed for two seconds
    comes again each second, with how long it has been."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show, self._text, self._since = show, "", 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Beating:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def __call__(self, text: str) -> None:
        self._text, self._since = text, time.monotonic()
        self._show(text)

    def watched(self, watch: Watch) -> Watch:
        """The same watcher of a session. Where no candidate compiles, the last line does not come again."""
        from xbackend.measure.standing import STARTING  # what a terminal needs for any message stays small

        def show(task: str, rows: Sequence[Standing]) -> None:
            if all(row.state != STARTING for row in rows):
                self._text = ""
            watch(task, rows)

        return show

    def _beat(self) -> None:
        while not self._ended.wait(_TICK):
            text, silent = self._text, time.monotonic() - self._since
            if text and silent >= _LONG:
                with suppress(OSError):  # nobody reads it any more, which the next line says
                    self._show(f"{text}, {silent:.0f} s")


class Log:
    """Prints a line of progress, unless the last one was the same but for seconds, and just now."""

    words, printed = "", 0.0

    def __call__(self, text: str) -> None:
        line, now = one_line(text), time.monotonic()
        words = line.rstrip("0123456789., s")
        if words != self.words or now - self.printed >= _SILENCE:
            self.words, self.printed = words, now
            print(line, file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """Text from anywhere on one line."""
    return visible(text.strip()).replace("\n", " ")


class Bar:
    """A line in a notebook's cell that changes, with a bar: how far the present process of each candidate is, or all of
    the ``planned`` ones. It is drawn four times a second at most, as drawing takes the cores that are measured."""

    def __init__(self, planned: int | None = None) -> None:
        from IPython.display import display

        self._planned, self._line, self._drawn, self._since = planned, "starts", 0.0, time.monotonic()
        self._share: tuple[int, int] | None = None
        self._shown = display(self._data(), raw=True, display_id=True)

    def say(self, text: str) -> None:
        """The next line."""
        self._line = one_line(text)
        self._draw()

    def show(self, task: str, rows: Sequence[Standing]) -> None:
        """How far the candidates of a case are."""
        made = [row.processes for row in rows if not row.failed]
        target = self._planned or max(made, default=0)
        done = sum(min(each, target) if self._planned else 0 < each == target for each in made)
        self._share = done, len(made) * (target if self._planned else 1)
        self._draw()

    def end(self) -> None:
        """The last line: how long it took."""
        self._line, self._share = f"ended after {time.monotonic() - self._since:.0f} s", None
        self._shown.update(self._data(), raw=True)

    def _draw(self) -> None:
        if time.monotonic() - self._drawn >= _DRAWN:
            self._drawn = time.monotonic()
            self._shown.update(self._data(), raw=True)

    def _data(self) -> dict[str, str]:
        from xbackend.drawing.markup import escape  # what a terminal needs for any message stays small

        bar = ""
        if self._share is not None and self._share[1]:
            bar = f'<progress value="{self._share[0]}" max="{self._share[1]}"></progress> '
        return {"text/plain": self._line, "text/html": f"<div>{bar}{escape(self._line)}</div>"}


@contextmanager
def of_scripts(
    planned: int | None = None, given: Callable[[str], None] | None = None
) -> Iterator[tuple[Callable[[str], None], Watch]]:
    """Where a script's progress goes while the block runs: to what is ``given``, else in a notebook to a line with a
    bar, else to the error output. ``planned`` is the number of processes of each candidate, where it is fixed."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if given is not None or shell is None or not hasattr(shell, "kernel"):
        yield given or Log(), lambda *_: None
        return
    bar = Bar(planned)
    try:
        yield bar.say, bar.show
    finally:
        bar.end()
