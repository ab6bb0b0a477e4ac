"""A task's process as the launcher has it: a worker whose framework an engine joins with those of the other tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xbackend.backends.contract import Settings
from xbackend.devices import Device
from xbackend.engines.spec import ClusterSpec, Task
from xbackend.workers.remote import RemoteBackend


class TaskBackend(RemoteBackend):
    """The backend of one task. ``joined`` is what its engine is told: see `Engine`. ``known`` is called when it has a
    process, which may wait for others from then on.

    Raises what `RemoteBackend` raises, and `ClusterError` where it does not meet the others in time.
    """

    def __init__(
        self,
        name: str,
        task: Task,
        joined: Mapping[str, Any],
        settings: Settings,
        known: Callable[[TaskBackend], None] = lambda _: None,
        **how: Any,
    ) -> None:
        self.task = task
        self.joined = dict(joined)
        self.known = known
        super().__init__(name, settings, label=str(task), **how)

    def begin(self) -> Iterable[Device]:
        self.known(self)
        devices: list[Device] = self.worker.request("start", self.name, self.settings, self.joined)
        return devices


def joined(engine: str, spec: ClusterSpec, task: Task, **options: Any) -> dict[str, Any]:
    """What an engine is told, as plain data."""
    own = {"job": task.job, "index": task.index, "count": task.count}
    return {"engine": engine, "jobs": {k: list(v) for k, v in spec.jobs.items()}, "task": own, "options": options}
