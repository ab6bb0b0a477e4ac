"""Delay of Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def put_off() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block. For imports of C++ extensions: an interrupted one of pybind11's
    (matplotlib's ft2font) raises ImportError, and Python aborts at its exit for want of the lock."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    caught: list[Any] = []
    signal.signal(signal.SIGINT, lambda *arguments: caught.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught:
            before(*caught[0])
