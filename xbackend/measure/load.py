"""How many cores this process and others keep busy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

TICK = 0.01  # seconds: the system counts in these (USER_HZ)


def foreign_seconds() -> float:
    """Processor seconds of all other processes since the machine was started; 0 where it does not tell."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:  # not Linux
        return 0.0
    user, nice, system, _idle, _waiting, *interrupts = fields
    busy = (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return busy - own.user - own.system - own.children_user - own.children_system


@contextmanager
def kept_busy(seconds: Callable[[], float], least: float = 0.0) -> Iterator[list[float]]:
    """Measure how many cores are kept busy while the block runs. The list has the number once the block has ended.

    ``seconds`` reads processor seconds; ``least`` is their resolution.
    """
    cores: list[float] = []
    before, start = seconds(), time.perf_counter()
    yield cores
    cores.append(max(0.0, (seconds() - before - least) / (time.perf_counter() - start)))


def foreign_load() -> AbstractContextManager[list[float]]:
    """Measure how many cores other processes keep busy, as `kept_busy`. One tick may be of earlier work."""
    return kept_busy(foreign_seconds, TICK)
