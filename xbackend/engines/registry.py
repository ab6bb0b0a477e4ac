"""The list of engines: what joins the processes of each backend."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from xbackend.backends import registry
from xbackend.errors import ClusterError
from xbackend.wording import join

if TYPE_CHECKING:
    from xbackend.engines.contract import Engine

# The class of each, which says what the engine can do.
ENGINES = {
    "tensorflow": "xbackend.engines.tensorflow.servers:TensorFlowServers",
    "multi-worker-mirrored": "xbackend.engines.tensorflow.mirrored:MultiWorkerMirrored",
    "coordinator": "xbackend.engines.tensorflow.coordinator:Coordinator",
    "jax": "xbackend.engines.jax:JAXDistributed",
    "mpi": "xbackend.engines.mpi:MPI",
}


def checked(backends: Sequence[str], names: Sequence[str]) -> list[tuple[str, type[Engine]]]:
    """Each backend with each engine of these names that it has, or with its first where none is named.

    Raises `UnknownBackend`, and `ClusterError` for an engine that there is not, or that a backend of them lacks.
    """
    if unknown := [name for name in names if name not in ENGINES]:
        raise ClusterError(f"there is no engine {unknown[0]!r:.40}: there are {join(ENGINES)}")
    return [(backend, of(backend, name)) for backend in backends for name in names or [""]]


def of(backend: str, name: str = "") -> type[Engine]:
    """The engine of a backend: of that name, or its first. Raises `UnknownBackend`, and `ClusterError` for one that it
    does not have."""
    there = registry.get(backend).engines
    if name and name not in there:
        others = [entry.name for entry in registry.REGISTRY.values() if name in entry.engines]
        raise ClusterError(
            f"backend {backend} is not joined by {name!r:.40}, but by {join(there)}"
            + (f"; {name} joins {join(others)}" if others else "")
        )
    module, _, kind = ENGINES[name or there[0]].partition(":")
    engine: type[Engine] = getattr(import_module(module), kind)
    return engine
