"""Processor cores: which of them this process may use, and which a process with so many devices is pinned to."""

from __future__ import annotations

import os
import re
from pathlib import Path

from xbackend.errors import DeviceUnavailable
from xbackend.wording import counted


def affinity() -> list[int] | None:
    """The processor cores that this process may use, by number; `None` where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def count() -> int:
    """How many processor cores this process may use."""
    known = affinity()
    return len(known) if known is not None else os.cpu_count() or 1


def pinned(devices: int, each: int, turn: int = 0) -> list[int]:
    """The cores of a process with so many devices of ``each`` cores, by number.

    Of processes side by side, each with its ``turn`` (0, 1, ...), each takes the next cores; where there are no more,
    the first ones again. Of cores with several hardware threads the first thread of each comes before any second one,
    as two threads of a core compute little more than one. Raises `DeviceUnavailable` where there are too few, or the
    system pins nothing.
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
    """Whether it is a hardware thread of a core that has another one before it."""
    try:
        siblings = Path(f"/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list").read_text()
    except OSError:  # a system that does not tell
        return False
    return thread != int(re.split("[,-]", siblings)[0])
