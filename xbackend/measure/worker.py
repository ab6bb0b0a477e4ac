"""A fresh process for measuring: a backend in a worker, and the seconds of its start."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from xbackend.backends.contract import Backend, Settings
from xbackend.cores import affinity
from xbackend.errors import DeviceUnavailable
from xbackend.workers.remote import RemoteBackend, ready_environment


@dataclass(eq=False)
class Worker:
    """An open backend, the call of functions beside it, and the seconds of its start."""

    backend: Backend
    call: Callable[..., Any]
    process_start: float | None = None
    framework_import: float | None = None
    cores: Sequence[int] | None = field(default_factory=affinity)  # that it may use, where the system tells

    @property
    def pid(self) -> int | None:
        """The id of its process; `None` for a backend of this process, and for a process that has ended."""
        process = getattr(self.backend, "worker", None)
        return None if process is None else process.pids.get("worker")

    def signal(self, name: str) -> None:
        """``SIGSTOP`` stops its process with all threads, as a pool's waiting ones may spin; ``SIGCONT`` resumes it."""
        if (pid := self.pid) is not None:  # else its next answer says that it has ended
            with suppress(ProcessLookupError):
                os.kill(pid, getattr(signal, name))


class SameKind:
    """The kind of the default device of each backend of a session: without its GPU a framework takes the CPU, and its
    times are of another device."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], str] = {}

    def checked(self, worker: Worker, name: str, environment: str) -> Worker:
        """The worker. Raises `DeviceUnavailable`, and ends it, where its kind is another one than before."""
        now = worker.backend.default_device
        before = self._kinds.setdefault((name, environment), now.kind)
        if now.kind != before:
            worker.backend.close()
            raise DeviceUnavailable(
                f"backend {name} computes on {now} in this process, and on a {before} in those before: see whether "
                "nvidia-smi still lists the GPU, and measure again"
            )
        return worker


def open_worker(
    name: str,
    *,
    environment: str = "",
    virtual_devices: int = 1,
    visible: tuple[str, ...] | None = None,
    threads: int | None = None,
    cores_per_device: int | None = None,
    limit: float | None = 600.0,
    on_progress: Callable[[str], None] | None = None,
    modules: Mapping[str, str] | None = None,
    own_cache: bool = False,
) -> Worker:
    """Start a backend in a process of its own. Its environment is made first where it is missing (not clocked).

    ``environment`` names another version of its framework, such as ``pytensor==2.38.3``; ``modules``, as in
    `RemoteBackend`, hold further functions to be called; ``visible`` and ``own_cache`` are those of `Settings`.

    Raises:
        UnknownBackend, BackendUnavailable, EnvironmentFailed, WorkerError.
    """
    ready_environment(name, environment or None, on_progress)
    settings = Settings(virtual_devices, visible, threads, cores_per_device=cores_per_device, own_cache=own_cache)
    backend = RemoteBackend(name, settings, requirement=environment, limit=limit, modules=modules)
    usable = affinity() if backend.cores is None else backend.cores
    return Worker(backend, backend.call, backend.process_start, backend.framework_import, usable)
