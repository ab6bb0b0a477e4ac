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


def hold(folder: Path, wait: bool = True) -> int | None:
    """Lock a folder; the file descriptor that releases it when it is closed, `None` where that cannot be.

    Of a folder that this process made it waits for nobody but `held`, which has the lock for a moment. Without `wait`
    it raises `BlockingIOError` where another has the lock.
    """
    return _locked(folder, alone=True, wait=wait)


def held(folder: Path) -> bool:
    """Whether a process, this one or another, holds the folder."""
    try:
        descriptor = _locked(folder, alone=False, wait=False)
    except BlockingIOError:
        return True
    if descriptor is not None:
        os.close(descriptor)
    return False


def _locked(folder: Path, alone: bool, wait: bool) -> int | None:
    """A descriptor with the lock, alone or with others who only look. Raises `BlockingIOError`."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # a pipe would wait for a writer
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return descriptor
