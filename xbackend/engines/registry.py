"""The list of engines: what joins the processes of each backend, and what each can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xbackend.backends import registry
from xbackend.errors import ClusterError
from xbackend.wording import join


@dataclass(frozen=True, slots=True)
class Entry:
    """An engine.

    ``adapter`` is its ``module:class``, ``summary`` what it is. ``no_servers`` is why it has no parameter servers,
    empty where it has. ``rejoins``: whether a task that was lost can come back while the others go on. ``updates``:
    ``host`` where an update of a server is computed by the backend of the task that brings it, under the server's lock,
    ``graph`` where the engine computes it on the server. ``alone`` repeats updates in one process.
    ``exposed`` is what others on the network can do with it, empty where it listens where it was told only.
    ``meets``: its processes meet by PMI, which the launcher speaks (see `cluster.pmi`). ``coordinated``: a task of its
    own, ``/job:chief/task:0``, has the programs of all workers and lets them compute (`contract.Coordinating`); then
    workers are not in step.
    """

    name: str
    adapter: str
    summary: str
    no_servers: str = ""
    rejoins: bool = False
    updates: str = "host"
    alone: str = "xbackend.engines.alone:Alone"
    exposed: str = ""
    meets: bool = False
    coordinated: bool = False


_NO_SERVERS = (
    "jax.distributed has collectives only, in which all processes take part: no process can read or update what "
    "another one holds; take --backend tensorflow, or one that MPI joins, such as pytensor"
)
_EXPOSED = "TensorFlow's servers listen on every interface, and run what anybody sends them"
_REPEATING = "xbackend.engines.tensorflow.repeating:Repeating"
ENGINES = {
    "tensorflow": Entry(
        "tensorflow",
        "xbackend.engines.tensorflow.servers:TensorFlowServers",
        "TensorFlow's servers and plain sessions",
        rejoins=True,
        updates="graph",
        alone=_REPEATING,
        exposed=_EXPOSED,
    ),
    "multi-worker-mirrored": Entry(
        "multi-worker-mirrored",
        "xbackend.engines.tensorflow.mirrored:MultiWorkerMirrored",
        "MultiWorkerMirroredStrategy, ring",
        no_servers=(
            "MultiWorkerMirroredStrategy keeps a copy of every variable in each worker; take --engine tensorflow or "
            "--engine coordinator"
        ),
        exposed=_EXPOSED,
    ),
    "coordinator": Entry(
        "coordinator",
        "xbackend.engines.tensorflow.coordinator:Coordinator",
        "ParameterServerStrategy with its ClusterCoordinator",
        rejoins=True,
        updates="graph",
        alone=_REPEATING,
        exposed=_EXPOSED,
        coordinated=True,
    ),
    "jax": Entry("jax", "xbackend.engines.jax:JAXDistributed", "jax.distributed with gloo", no_servers=_NO_SERVERS),
    "mpi": Entry(
        "mpi", "xbackend.engines.mpi:MPI", "MPI (mpi4py with MPICH): collectives, and windows with locks", meets=True
    ),
}


def checked(backends: Sequence[str], names: Sequence[str]) -> list[tuple[str, Entry]]:
    """Each backend with each engine of these names that it has, or with its first where none is named.

    Raises `UnknownBackend`, and `ClusterError` for an engine that there is not, or that a backend of them lacks.
    """
    if unknown := [name for name in names if name not in ENGINES]:
        raise ClusterError(f"there is no engine {unknown[0]!r:.40}: there are {join(ENGINES)}")
    return [(backend, of(backend, name)) for backend in backends for name in names or [""]]


def of(backend: str, name: str = "") -> Entry:
    """The engine of a backend: of that name, or its first. Raises `UnknownBackend`, and `ClusterError` for one that it
    does not have."""
    there = registry.get(backend).engines
    if name and name not in there:
        others = [entry.name for entry in registry.REGISTRY.values() if name in entry.engines]
        raise ClusterError(
            f"backend {backend} is not joined by {name!r:.40}, but by {join(there)}"
            + (f"; {name} joins {join(others)}" if others else "")
        )
    return ENGINES[name or there[0]]
