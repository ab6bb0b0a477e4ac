"""A fresh process for measuring: a backend in a worker, and how long its start took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xbackend import environments
from xbackend.backends import registry
from xbackend.backends.base import Backend, Settings
from xbackend.workers.remote import RemoteBackend


@dataclass(eq=False)
class Worker:
    """An open backend, what runs functions beside it, and the seconds of its start."""

    backend: Backend
    call: Callable[..., Any]
    process_start: float | None = None
    framework_import: float | None = None


def open_worker(
    name: str,
    *,
    virtual_devices: int = 1,
    threads: int | None = None,
    limit: float | None = 600.0,
    on_progress: Callable[[str], None] | None = None,
) -> Worker:
    """Start a backend in a process of its own. Its environment is made first where it is missing (not clocked).

    Raises:
        UnknownBackend, BackendUnavailable, EnvironmentFailed, WorkerError.
    """
    entry = registry.get(name)
    if environments.get(entry.environment).state != "ready":
        environments.sync(entry.environment, on_progress or (lambda _: None))
    backend = RemoteBackend(name, Settings(virtual_devices, None, threads), limit=limit)
    return Worker(backend, backend.call, backend.process_start, backend.framework_import)
