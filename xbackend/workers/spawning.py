"""How execnet starts a process, with the process remembered: one that never answers belongs to no gateway yet."""

from __future__ import annotations

import threading
from subprocess import PIPE, Popen
from typing import Any

from execnet.gateway_base import ThreadExecModel


class Spawning(ThreadExecModel):  # type: ignore[misc]  # execnet has no types
    """execnet's threads, and its way to start a process."""

    PIPE = PIPE

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Popen[bytes] | None = None
        self._over = False

    @property
    def subprocess(self) -> Spawning:
        """In the place of the module."""
        return self

    def Popen(self, *arguments: Any, **options: Any) -> Any:
        """Start the process. Raises `OSError`, also after the end."""
        with self._lock:
            if self._over:
                raise InterruptedError("it was ended before it began")
            self._process = Popen(*arguments, **options)
            return self._process

    def end(self) -> None:
        """Kill the process if it is still there, stopped or not; none is started from now on."""
        with self._lock:
            self._over = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()
