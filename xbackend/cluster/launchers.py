"""The cluster that a launcher (Slurm, MPI, TF_CONFIG) announces, for each start, and the cores that it left."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

from xbackend import cores
from xbackend.cluster.starting import all_here, is_here
from xbackend.engines.spec import FIRST_PORT, Announced, ClusterSpec, local, split
from xbackend.wording import counted


def starts(said: Announced, port: int | None = None) -> Iterator[ClusterSpec]:
    """A cluster for each start, as a launcher announced it. Where it names no ports, each start has others: free ones
    on one host, on several hosts those from ``port`` up."""
    spec, count = said.spec, len(said.spec.tasks)
    if said.ports:
        return itertools.repeat(spec)
    if port is None and all_here(spec, said.host):
        return (local(count, 0) for _ in itertools.count())
    firsts = first_ports(FIRST_PORT if port is None else port, count)
    return (spec.placed(by=first - FIRST_PORT) for first in firsts)


def first_ports(first: int, count: int) -> Iterator[int]:
    """The first port of each start, higher each time, as lost processes may still hold theirs. After the highest port
    the numbers begin again."""
    room = max(1, (1 << 16) - first - count)
    return (first + number * count % room for number in itertools.count())


def bound(said: Announced) -> Iterator[str]:
    """What to type where a launcher bound this process to fewer cores than its host's tasks need."""
    hosts = [split(said.spec.address(task))[0] for task in said.spec.tasks]
    here, usable, all_cores = sum(is_here(host, said.host) for host in hosts), cores.count(), os.cpu_count() or 1
    if usable < min(here, all_cores):
        yield (
            f"{counted(here, 'task')} of this host share {counted(usable, 'core')} of {all_cores}, to which this "
            "process is bound: srun --cpu-bind=none and mpirun --bind-to none bind it to none"
        )
