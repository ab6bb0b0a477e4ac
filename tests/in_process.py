"""A task of a cluster in the process of the tests: NumPy computes its program in parts, and servers are records in
memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import numpy as np

from xbackend.backends import registry
from xbackend.backends.contract import Backend, Settings, Value
from xbackend.cluster.job import Job
from xbackend.cluster.programs import Programs, loaded
from xbackend.cluster.starting import joined
from xbackend.devices import DeviceMap
from xbackend.engines import alone
from xbackend.engines.contract import Brought, HostUpdate
from xbackend.engines.member import BuiltProgram
from xbackend.engines.record import Applied, Layout
from xbackend.engines.registry import of
from xbackend.engines.spec import SERVER, WORKER, ClusterSpec, Task
from xbackend.workers.serving import Held


def spec_of(workers: int, servers: int) -> ClusterSpec:
    """A cluster of unused addresses."""
    return ClusterSpec.of([f"localhost:{20_000 + k}" for k in range(workers + servers)], servers)


def programs(function: Callable[..., Any], workers: int, servers: int, **more: Any) -> Programs:
    """The programs of a job for tasks on NumPy."""
    how = {"asynchronous": False, "guard": lambda _: nullcontext(), **more}
    engine = of(how.pop("backend", "numpy"))
    return Programs(Job(function), spec_of(workers, servers), engine, **how)


def tasks(one: Programs) -> list[Task]:
    return [Task(WORKER, k, one.workers) for k in range(one.workers)]


class Together(alone.Alone):
    """Servers in this process, with one version only. In an all-reduce all workers have this one's values."""

    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        sums = [array * self.task.count for array in backend.get_all(values)]
        return backend.put_all(sums, [backend.device_of(value) for value in values])

    def version(self, layout: Layout) -> int:
        return layout.version(self.records[layout.server])

    def pull(self, layout: Layout) -> np.ndarray:
        return self.records[layout.server].copy()

    def push(self, updates: Sequence[HostUpdate], brought: Brought) -> list[tuple[Applied, list[np.ndarray]]]:
        done = []
        for layout, update, arrays in zip(self.layouts, updates, brought.arrays, strict=True):
            record = self.records[layout.server]
            returned = update(layout, record, arrays)
            done.append((layout.add(record, self.task.index, brought.step, brought.read), returned))
        return done


class Here:
    """A launcher's side of a task's process, for a task in this process."""

    def __init__(self, task: Task, layouts: Sequence[Layout], devices: int = 2) -> None:
        settings = Settings(virtual_devices=devices)
        self.backend = registry.get("numpy").load(settings)
        spec = spec_of(task.count, len(layouts))
        self.engine = Together(joined("", spec, task, layouts, limit=1.0, asynchronous=True), settings)
        self.backend.engine = self.engine
        self.devices, self.default_device = self.backend.devices, self.backend.default_device
        self.ensure_storage = self.backend.ensure_storage

    def call(self, path: str, *arguments: Any) -> Any:
        module, _, name = path.partition(":")
        made = getattr(import_module(module), name)(self.backend, *arguments)
        return made.content if isinstance(made, Held) else made


class Running:
    """A task that takes its steps here, one in each call."""

    def __init__(self, one: Programs, task: Task, *arrays: np.ndarray) -> None:
        self.programs, self.task = one, task
        self.traced = one.of(task, arrays)
        self.layouts, self.number = one.layouts, 0
        self.here = Here(task, self.layouts)
        self.here.engine.open(one.records())
        self.program: BuiltProgram = loaded(self.here, self.traced, DeviceMap()).held  # type: ignore[arg-type]

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        outputs, _ = self.program.run(self.number, arrays)
        self.number += 1
        return outputs

    def values(self) -> Mapping[str, np.ndarray]:
        """All variables by name."""
        found = {v.name: self.here.backend.get_value(v) for v in self.programs.own(self.task)}
        for one in self.layouts:
            found |= one.arrays(self.here.engine.records[one.server])
        return found


def server(number: int) -> str:
    """The device of a parameter server."""
    return f"/job:{SERVER}/task:{number}"
