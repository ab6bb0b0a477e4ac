"""The memory that a call takes: the peak of the resident set, and of the devices where the framework tells.

Imports the standard library only: it runs inside the worker. Linux keeps the peak, and a process can reset it:
https://docs.kernel.org/filesystems/proc.html (VmHWM, clear_refs).
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
STATUS, BEGIN_ANEW = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class MemoryWatch:
    """The resident set now, and the peaks above it of later work.

    ``devices`` gives each device's peak of bytes in use since the process began.
    """

    def __init__(self, devices: Callable[[], Mapping[str, int]]) -> None:
        self._devices, self._peaks = devices, dict(devices())
        self._before = resident()
        self._found: dict[str, int] = {}
        self._why = "" if self._before is not None else f"the system does not tell what is resident ({STATUS})"

    def during(self, what: str, work: Callable[[], Result]) -> Result:
        """Do the work, and note its peak under this name."""
        try:
            BEGIN_ANEW.write_text("5")
        except OSError as error:
            why = error.strerror or error
            self._why = self._why or f"the system does not count the peak anew ({BEGIN_ANEW}: {why})"
        result = work()
        peak = told(STATUS, "VmHWM")
        if peak is None or self._before is None:
            self._why = self._why or f"the system does not tell the peak ({STATUS})"
        else:
            self._found[what] = max(0, peak - self._before)
        return result

    def result(self) -> tuple[dict[str, Any] | None, str]:
        """The peaks (bytes) with ``before`` and ``devices``, as plain data; or `None` and the reason.

        ``devices`` are those whose peak has grown: others peaked earlier.
        """
        if self._why:
            return None, self._why
        grown = {name: count for name, count in self._devices().items() if count > self._peaks.get(name, 0)}
        return {"before": self._before, "devices": grown, **self._found}, ""


def resident() -> int | None:
    """Resident bytes, after free memory is given back to the system; `None` where it does not tell."""
    gc.collect()
    with suppress(OSError, AttributeError):  # another C library, which gives memory back when it likes
        ctypes.CDLL(None).malloc_trim(0)
    return told(STATUS, "VmRSS")


def told(path: Path, field: str) -> int | None:
    """Bytes that a file of the system tells in a line of kibibytes; `None` where it does not tell."""
    try:
        lines = path.read_text().splitlines()
    except OSError:  # not Linux
        return None
    found = [line.split() for line in lines if line.startswith(f"{field}:")]
    return int(found[0][1]) << 10 if found else None
