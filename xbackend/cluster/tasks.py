"""The launcher's side of a task's process: a worker whose framework an engine joins with the other tasks'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from xbackend.devices import Device
from xbackend.engines.record import Layout
from xbackend.engines.spec import ClusterSpec, Task
from xbackend.workers.remote import RemoteBackend

Known = Callable[["TaskBackend"], None]


class TaskBackend(RemoteBackend):
    """The backend of one task. ``joined`` has the arguments of its engine: see `Engine`. ``known`` is called once its
    process runs, before it waits for others.

    Raises what `RemoteBackend` raises, and `ClusterError` where it does not meet the others in time.
    """

    def __init__(self, name: str, task: Task, joined: Mapping[str, Any], known: Known, **how: Any) -> None:
        self.task, self.joined, self.known = task, dict(joined), known
        super().__init__(name, label=str(task), **how)

    def begin(self) -> Iterable[Device]:
        self.known(self)
        devices: list[Device] = self.worker.request("start", self.name, self.settings, self.joined)
        return devices


def joined(engine: str, spec: ClusterSpec, task: Task, layouts: Sequence[Layout], **options: Any) -> dict[str, Any]:
    """The arguments of an engine (``module:class``) for a task, as plain data."""
    return {
        "engine": engine,
        "jobs": {name: list(addresses) for name, addresses in spec.jobs.items()},
        "task": astuple(task),
        "layouts": list(map(astuple, layouts)),
        "options": options,
    }
