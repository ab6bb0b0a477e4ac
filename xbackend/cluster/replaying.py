"""An asynchronous job replayed by one process.

Each update is computed from the versions that it read in the run, and applied in the logged order. So the results are
equal to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import numpy as np

from xbackend.cluster.job_results import JobResults
from xbackend.cluster.jobspec import JobSpec
from xbackend.cluster.programs import Programs, loaded, shapes
from xbackend.cluster.starting import TaskBackend, joined
from xbackend.engines.record import Applied
from xbackend.engines.registry import of
from xbackend.engines.spec import WORKER, ClusterSpec, Task
from xbackend.errors import ClusterError

_AT_ONCE = 1024  # updates whose reads are sent to the process in one message


def replay(asked: JobSpec, ran: JobResults) -> dict[str, np.ndarray]:
    """The servers' variables after all updates of a logged run, by the names of `JobResults.variables`. The replay
    begins at the beginning of the run: a checkpoint, or before the first update.

    Raises `ClusterError` where the log has gaps, and what backends raise.
    """
    engine, spec = of(asked.backend, asked.engine), asked.cluster()
    programs = Programs(asked.job, spec, engine, asynchronous=True, guard=asked.guard)
    workers = [task for task in spec.tasks if task.job == WORKER]
    for task in workers:
        programs.of(task, programs.arrays(task, 0))
    layouts, alone = programs.layouts, Task(WORKER, 0, 1)
    told = joined(engine.alone, ClusterSpec.of(["localhost:1"]), alone, layouts, limit=asked.limit, asynchronous=True)
    with TaskBackend(asked.backend, alone, told, lambda _: None, settings=asked.settings) as backend:
        ask = partial(backend.call, "xbackend.engines.member:call")
        reads = (one.read for queue in _queues(ran) for one in queue)
        while some := list(islice(reads, _AT_ONCE)):
            ask("expect", some)
        ask("open", ran.begun)
        held = {}
        for one in ordered(_queues(ran), ran.before):
            task = workers[one.worker]
            arrays = programs.arrays(task, one.step)
            key = task, shapes(arrays)
            if key not in held:
                held[key] = loaded(backend, programs.of(task, arrays), asked.devices).held
            backend.call("xbackend.engines.member:repeat", held[key], one, arrays)
        return {
            f"/job:ps/task:{layout.server}/{name}": array
            for layout in layouts
            for name, array in layout.arrays(ask("record", layout.server)).items()
        }


def _queues(ran: JobResults) -> list[Iterator[Applied]]:
    return [ran.log.after(server, version) for server, version in enumerate(ran.before)]


def ordered(queues: Sequence[Iterator[Applied]], before: Sequence[int]) -> Iterator[Applied]:
    """Updates in an order in which they can be repeated: each after the versions that it read.

    Args:
        queues: for each server its updates, by version.
        before: the version of each server before its first update.

    Raises:
        ClusterError: one is missing.
    """
    at, heads = list(before), [next(queue, None) for queue in queues]
    while there := [head for head in heads if head is not None]:
        if gaps := [one.server for one in there if one.version != at[one.server] + 1]:
            raise ClusterError(f"the record of /job:ps/task:{gaps[0]} has gaps: please report this")
        ready = next((one for one in there if all(had >= read for had, read in zip(at, one.read, strict=True))), None)
        if ready is None:
            raise ClusterError("the record is of no order: an update read what was not there")
        yield ready
        at[ready.server] += 1
        heads[ready.server] = next(queues[ready.server], None)


def differing(ran: JobResults, again: dict[str, np.ndarray]) -> list[str]:
    """The names of the variables that a replay made otherwise."""
    return [name for name, array in again.items() if array.tobytes() != ran.variables[name].tobytes()]
