"""Helpers for the tests of workers: questions to workers and to the system."""

from __future__ import annotations

import time
from pathlib import Path

import worker_faults

from xbackend import errors
from xbackend.workers.remote import RemoteBackend

MODULES = {"worker_faults": worker_faults.__file__}
PACKAGE = Path(errors.__file__).parent


def fault(backend: RemoteBackend, name: str, *arguments: object, **options):
    return backend.call(f"worker_faults:{name}", *arguments, **options)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(*pids: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, pids))


def held(worker: RemoteBackend) -> list[int]:
    return fault(worker, "held")
