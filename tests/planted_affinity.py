"""The cores of a worker's threads; runs inside the worker."""

from __future__ import annotations

import os
from typing import Any

from xbackend.measure import loop


def affinity(_: Any) -> list[int] | None:
    """The cores that the threads of this process may use."""
    return loop.affinity()


def process(_: Any) -> int:
    """The id of the process."""
    return os.getpid()
