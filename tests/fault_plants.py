"""Faults of a worker in the middle of a timed round.

The text of this file is appended to the ``measure/loop.py`` of a copy of the package: the fault happens in a real
worker of a real command. ``XBACKEND_FAULT`` has the fault by size and process: ``16:segfault:2,17:kill:1`` is a
segmentation fault at size 16 in the second process that measures it, and the end of the first process that measures
size 17.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

_prepare_in_peace, _rounds_in_peace = globals()["prepare"], globals()["_rounds"]
_faults: list[str] = []


def _garbage() -> None:
    print("garbage {" * 10_000, flush=True)
    os.write(1, b"\x00\xff\n" * 100_000)
    os.write(2, b"\xff" * 100_000)


def _hang() -> None:
    """Hold Python's lock, so that no thread of the worker can end it."""
    Path("hangs").touch()
    ctypes.PyDLL(None).sleep(3600)


FAULTS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "hang": _hang,
    "memory": lambda: np.ones(1 << 40),
    "leave": lambda: os._exit(3),
    "exit": lambda: sys.exit(3),
    "garbage": _garbage,
}


def _count(folder: str, size: str) -> int:
    """The number of this process among those that measure the size. Each makes a file."""
    number = 1
    while True:
        try:
            os.close(os.open(os.path.join(folder, f"{size}-{number}"), os.O_CREAT | os.O_EXCL))
            return number
        except FileExistsError:
            number += 1


def prepare(backend: Any, job: dict[str, Any]) -> Any:
    (size,) = re.findall(r"size=(\d+)", job["label"])
    number = _count(os.environ["XBACKEND_FAULT_FOLDER"], size)
    wanted = [entry.split(":") for entry in os.environ["XBACKEND_FAULT"].split(",")]
    _faults[:] = [fault for at, fault, when in wanted if (at, when) == (size, str(number))]
    return _prepare_in_peace(backend, job)


def _rounds(held: Any, *others: Any) -> Any:
    left, call = [held.iterations // 2 + 1], held.call  # in the middle of the first round

    def faulty() -> Any:
        left[0] -= 1
        if left[0] == 0 and _faults:
            FAULTS[_faults.pop()]()
        return call()

    held.call = faulty
    try:
        return _rounds_in_peace(held, *others)
    finally:
        held.call = call
