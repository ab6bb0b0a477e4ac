"""A fresh process for measuring: a backend in a worker, and how long its start took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xbackend import environments
from xbackend.backends import registry
from xbackend.backends.base import Backend, Settings
from xbackend.workers.process import WorkerProcess
from xbackend.workers.remote import RemoteBackend


@dataclass(eq=False)
class Worker:
    """An open backend, what runs functions beside it, and the seconds of its start."""

    backend: Backend
    call: Callable[..., Any]
    process_start: float | None = None
    framework_import: float | None = None


class _Clocked(RemoteBackend):
    """Notes when its process answered and when its framework was there."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._begun = self._answered = time.perf_counter()
        super().__init__(*arguments, **options)
        self._ready = time.perf_counter()

    @property
    def worker(self) -> WorkerProcess:
        return self._process

    @worker.setter
    def worker(self, process: WorkerProcess) -> None:
        self._process = process
        self._answered = time.perf_counter()

    def started(self) -> Worker:
        return Worker(self, self.call, self._answered - self._begun, self._ready - self._answered)


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
    return _Clocked(name, Settings(virtual_devices, None, threads), limit=limit).started()
