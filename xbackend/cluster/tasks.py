"""A task's process as the launcher has it: a worker whose framework an engine joins with those of the other tasks."""

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
    """The backend of one task. ``joined`` is what its engine is told: see `Engine`. ``known`` is called when it has a
    process, which may wait for others from then on.

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
    """What an engine, a ``module:class``, is told of its task, as plain data."""
    return {
        "engine": engine,
        "jobs": {name: list(addresses) for name, addresses in spec.jobs.items()},
        "task": astuple(task),
        "layouts": list(map(astuple, layouts)),
        "options": options,
    }
