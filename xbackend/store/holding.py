"""Whether somebody measures a run: its folder is locked for as long, and the system releases it when the process ends.

The lock is flock's and of the folder itself, so that nothing is left of it. Where there is no such lock (Windows, some
network file systems) no run is held.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def hold(folder: Path) -> int | None:
    """Lock a folder; the file descriptor that releases it when it is closed, `None` where that cannot be."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # waits for nobody but `held`, which has it for a moment
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def held(folder: Path) -> bool:
    """Whether a process, this one or another, holds the folder."""
    if sys.platform == "win32":
        return False
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
