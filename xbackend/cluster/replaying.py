"""An asynchronous job repeated by one process: each update is computed from the versions that it read when it ran, and
applied in the order that was written down, so that what comes out is the same to the bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xbackend.cluster.asked import Asked
from xbackend.cluster.programs import Programs, compiled, shapes
from xbackend.cluster.ran import Ran
from xbackend.cluster.tasks import TaskBackend, joined
from xbackend.engines.member import plain
from xbackend.engines.record import Applied
from xbackend.engines.registry import of
from xbackend.engines.spec import WORKER, ClusterSpec, Task
from xbackend.errors import ClusterError
from xbackend.wording import counted


def replay(asked: Asked, ran: Ran) -> dict[str, np.ndarray]:
    """The servers' variables after all updates of a run that was recorded, by the names of `Ran.variables`. It begins
    where the run began, at a checkpoint or before the first update.

    Raises `ClusterError` where the record has gaps, and what backends raise.
    """
    engine = of(asked.backend, asked.engine)
    spec = asked.cluster()
    programs = Programs(asked.job, spec, engine, asynchronous=True, guard=asked.guard)
    tasks = [task for task in spec.tasks if task.job == WORKER]
    for task in tasks:
        programs.of(task, programs.arrays(task, 0))
    layouts, order = programs.layouts, ordered(ran.applied, ran.before)
    alone = Task(WORKER, 0, 1)
    told = joined(engine.alone, ClusterSpec.local([1]), alone, limit=asked.limit, asynchronous=True)
    with TaskBackend(asked.backend, alone, told, asked.settings) as backend:
        backend.call(
            "xbackend.engines.member:begun", [plain(one) for one in layouts], ran.begun, [one.read for one in order]
        )
        steps = {}
        for one in order:
            task = tasks[one.worker]
            arrays = programs.arrays(task, one.step)
            key = task, shapes(arrays)
            if key not in steps:
                traced = programs.of(task, arrays)
                steps[key] = compiled(backend, traced, layouts, engine, asked.devices).step
            backend.call("xbackend.engines.member:repeated", steps[key], tuple(one), arrays)
        records = backend.call("xbackend.engines.member:came_to")
    return {
        f"/job:ps/task:{layout.server}/{name}": array
        for layout in layouts
        for name, array in layout.arrays(records[layout.server]).items()
    }


def ordered(applied: Sequence[Applied], before: Mapping[int, int]) -> list[Applied]:
    """Updates in an order in which they can be repeated: those of a server by their versions, from that of ``before``
    on, each after all that it read. Raises `ClusterError` where one is missing."""
    queues = {
        k: sorted((one for one in applied if one.server == k), key=lambda one: one.version) for k in sorted(before)
    }
    for k, queue in queues.items():
        if [one.version - before[k] for one in queue] != list(range(1, len(queue) + 1)):
            raise ClusterError(f"the record of /job:ps/task:{k} has gaps: please report this")
    at, order = dict.fromkeys(queues, 0), list[Applied]()
    while any(at[k] < len(queue) for k, queue in queues.items()):
        ready = [
            queue[at[k]]
            for k, queue in queues.items()
            if at[k] < len(queue) and all(before[s] + at[s] >= v for s, v in enumerate(queue[at[k]].read))
        ]
        if not ready:
            raise ClusterError("the record is of no order: an update read what was not there")
        order.append(ready[0])
        at[ready[0].server] += 1
    return order


def words(ran: Ran, again: dict[str, np.ndarray]) -> str:
    """Whether it came to the same."""
    other = [name for name, array in again.items() if array.tobytes() != ran.variables[name].tobytes()]
    done = f"replayed in one process: {counted(ran.updates, 'update')} in their order"
    if other:
        return f"{done} give other numbers in {', '.join(other)}"
    return f"{done} give the same to the bit"
