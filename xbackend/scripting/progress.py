"""Progress without a terminal: lines in a log, and in a notebook a line that changes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xbackend.wording import visible

if TYPE_CHECKING:
    from xbackend.measure.standing import Standing, Watch

_LONG = 2.0  # seconds of one line after which they are counted
_TICK = 1.0  # seconds from one time that they are counted to the next
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
        """The same watcher of a session. Where no candidate compiles, the last line is not what is waited for."""
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


def of_scripts() -> Callable[[str], None]:
    """Where a script's progress goes: in a notebook a line of its cell, else the error output."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):
        return Log()
    from IPython.display import display

    shown = display({"text/plain": "starts"}, raw=True, display_id=True)
    return lambda text: shown.update({"text/plain": one_line(text)}, raw=True)
