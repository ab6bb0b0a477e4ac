"""Processor cores: the affinity of this process, and the cores that a process with several devices is pinned to."""

from __future__ import annotations

import os
import re
from pathlib import Path

from xbackend.errors import DeviceUnavailable
from xbackend.wording import counted

FOREIGN = 0.25  # cores; other processes that use more disturb a measurement


def affinity() -> list[int] | None:
    """The processor cores that this process may use, by number; `None` where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def count() -> int:
    """How many processor cores this process may use."""
    known = affinity()
    return len(known) if known is not None else os.cpu_count() or 1


def pinned(devices: int, each: int, turn: int = 0) -> list[int]:
    """The cores of a process with ``devices`` devices of ``each`` cores, by number.

    Concurrent processes, numbered by ``turn`` (0, 1, ...), get consecutive cores, and start again at the first when all
    are taken. First hardware threads come before second ones: two threads of a core compute little more than one.
    Raises `DeviceUnavailable` where there are too few cores, or the system cannot pin a process.
    """
    known = affinity()
    if known is None:
        raise DeviceUnavailable("devices of so many cores each take a system that pins a process to cores, as Linux")
    if len(known) < devices * each:
        raise DeviceUnavailable(
            f"{counted(devices, 'device')} of {counted(each, 'core')} each take {devices * each} cores, and this "
            f"process may use {len(known)}: ask for fewer devices or cores, or let the devices share the cores "
            "(xbackend compare: --shared-cores; else leave out cores_per_device)"
        )
    wanted = devices * each
    begin = turn % (len(known) // wanted) * wanted
    return sorted(sorted(known, key=lambda core: (_is_second(core), core))[begin : begin + wanted])


def _is_second(thread: int) -> bool:
    """Whether a hardware thread is not the first one of its core."""
    try:
        siblings = Path(f"/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list").read_text()
    except OSError:  # a system that does not tell
        return False
    return thread != int(re.split("[,-]", siblings)[0])
