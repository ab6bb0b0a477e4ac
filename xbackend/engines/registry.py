"""The list of engines: what joins the processes of each backend, and what each can do."""

from __future__ import annotations

from dataclasses import dataclass

from xbackend.backends import registry


@dataclass(frozen=True, slots=True)
class Entry:
    """An engine.

    ``adapter`` is its ``module:class``, ``summary`` what it is. ``no_servers`` is why it has no parameter servers,
    empty where it has. ``rejoins``: whether a task that was lost can come back while the others go on. ``updates``:
    ``host`` where an update of a server is computed by the backend of the task that brings it, under the server's lock,
    ``graph`` where the engine computes it on the server. ``alone`` repeats updates in one process.
    ``exposed`` is what others on the network can do with it, empty where it listens where it was told only.
    ``meets``: its processes meet by PMI, which the launcher speaks (see `cluster.pmi`).
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


_NO_SERVERS = (
    "jax.distributed has collectives only, in which all processes take part: no process can read or update what "
    "another one holds; take --backend tensorflow, or one that MPI joins, such as pytensor"
)
ENGINES = {
    "tensorflow": Entry(
        "tensorflow",
        "xbackend.engines.tensorflow:TensorFlowServers",
        "TensorFlow's servers and plain sessions",
        rejoins=True,
        updates="graph",
        alone="xbackend.engines.tensorflow:Repeating",
        exposed="TensorFlow's servers listen on every interface, and run what anybody sends them",
    ),
    "jax": Entry("jax", "xbackend.engines.jax:JAXDistributed", "jax.distributed with gloo", no_servers=_NO_SERVERS),
    "mpi": Entry(
        "mpi", "xbackend.engines.mpi:MPI", "MPI (mpi4py with MPICH): collectives, and windows with locks", meets=True
    ),
}


def of(backend: str) -> Entry:
    """The engine of a backend. Raises `UnknownBackend`."""
    return ENGINES[registry.get(backend).engine]
