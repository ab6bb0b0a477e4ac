"""A fresh process for measuring: a backend in a worker, and how long its start took."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xbackend import environments
from xbackend.backends.contract import Backend, Settings
from xbackend.workers.remote import RemoteBackend, environment_of


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
    environment: str = "",
    virtual_devices: int = 1,
    threads: int | None = None,
    limit: float | None = 600.0,
    on_progress: Callable[[str], None] | None = None,
    modules: Mapping[str, str] | None = None,
) -> Worker:
    """Start a backend in a process of its own. Its environment is made first where it is missing (not clocked).

    ``environment`` is that of another version of its framework, such as ``pytensor==2.38.3``. ``modules``
    are those of `RemoteBackend`: what the functions that it is asked for lie in, beside xbackend.

    Raises:
        UnknownBackend, BackendUnavailable, EnvironmentFailed, WorkerError.
    """
    used = environment_of(name, environment or None)
    if used.state != "ready":
        environments.sync(used.name, on_progress or (lambda _: None))
    settings = Settings(virtual_devices, None, threads)
    backend = RemoteBackend(name, settings, requirement=environment, limit=limit, modules=modules)
    return Worker(backend, backend.call, backend.process_start, backend.framework_import)
