"""The measurements of two ranks of MPI, each a process on its own host, over the link between the hosts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from links import namespaces
from xbackend.engines.pmi import Meeting

_RANK = Path(__file__).with_name("rank.py")
_HERE = Path(__file__).parent.parent
# MPICH's own choice of library, on the one interface that the host has; a core for each rank.
_MPI = {
    "UCX_TLS": "self,tcp",
    "UCX_NET_DEVICES": namespaces.DEVICE,
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class Failed(Exception):
    """Ranks did not measure, and why."""


@dataclass(frozen=True)
class Asked:
    """One measurement, as `rank` has it."""

    kind: str
    nbytes: int
    rounds: int
    chain: int = 1


Rounds = Sequence[Sequence[float]]  # of each rank the seconds of each round


def measure(python: str | Path, delay: float, rate: float, asked: Sequence[Asked], limit: float) -> list[Rounds]:
    """The measurements of the ranks, in the order asked, with an interpreter that has NumPy and mpi4py. The link has
    ``delay`` seconds one way and ``rate`` bytes a second; ``limit`` in seconds, for all of it.

    Raises `namespaces.NotPermitted` and `Failed`.
    """
    with namespaces.linked(delay, rate) as hosts, _ranks(str(python), hosts, asked, limit) as (ranks, said):
        ended = namespaces.wait(ranks, limit)
        words = [_read(file) for file in said]
        if not ended:
            raise Failed(f"the ranks took more than {limit:g} s: {words[1][-500:]} {words[3][-500:]}".strip())
        if any(one.returncode for one in ranks):
            raise Failed(f"the ranks ended with {[one.returncode for one in ranks]}: {(words[1] + words[3])[-1000:]}")
        found: list[Rounds] = json.loads(words[0])
        return found


@contextmanager
def _ranks(
    python: str, hosts: namespaces.Hosts, asked: Sequence[Asked], limit: float
) -> Iterator[tuple[list[subprocess.Popen[str]], list[TextIO]]]:
    """Both ranks, and for each a file of its output and one of its errors."""
    plan: dict[str, Any] = {"parent": os.getpid(), "limit": limit, "asked": [asdict(one) for one in asked]}
    path = os.pathsep.join([str(_HERE), str(_HERE.parent)])
    with contextlib.closing(Meeting([0, 1])) as meeting, ExitStack() as stack:
        said: list[TextIO] = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(4)]
        ranks: list[subprocess.Popen[str]] = []
        stack.callback(namespaces.end, ranks)
        for rank in (0, 1):
            environment = {**os.environ, **_MPI, **meeting.environment(rank), "PYTHONPATH": path}
            command = [python, str(_RANK), json.dumps({**plan, "rank": rank})]
            descriptor = meeting.descriptor(rank)
            out, errors = said[2 * rank : 2 * rank + 2]
            ranks.append(hosts.start(rank, command, env=environment, pass_fds=[descriptor], stdout=out, stderr=errors))
            meeting.given(rank)
        yield ranks, said


def _read(file: TextIO) -> str:
    file.seek(0)
    return file.read()
