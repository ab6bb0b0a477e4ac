"""Progress without a terminal: lines in a log, and in a notebook a line that changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from xbackend.wording import visible

_SILENCE = 10.0  # seconds after which a log gets the same kind of line again


class Log:
    """Prints a line of progress, unless the last one was the same but for seconds, and just now."""

    words, printed = "", 0.0

    def __call__(self, text: str) -> None:
        line, now = one_line(text), time.monotonic()
        words = line.rstrip("0123456789. s")
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
