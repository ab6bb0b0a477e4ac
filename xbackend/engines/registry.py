"""The list of engines, which join the processes of backends."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from xbackend.backends import registry
from xbackend.errors import ClusterError
from xbackend.wording import join

if TYPE_CHECKING:
    from xbackend.engines.contract import Engine

# The class of each engine.
ENGINES = {
    "tensorflow": "xbackend.engines.tensorflow.servers:TensorFlowServers",
    "multi-worker-mirrored": "xbackend.engines.tensorflow.mirrored:MultiWorkerMirrored",
    "coordinator": "xbackend.engines.tensorflow.coordinator:Coordinator",
    "jax": "xbackend.engines.jax:JAXDistributed",
    "mpi": "xbackend.engines.mpi:MPI",
}


def checked(backends: Sequence[str], names: Sequence[str]) -> list[tuple[str, type[Engine]]]:
    """Each backend with each named engine, or with its first engine if none is named.

    Raises `UnknownBackend`, and `ClusterError` for an unknown engine, or one that a backend lacks.
    """
    if unknown := [name for name in names if name not in ENGINES]:
        raise ClusterError(f"there is no engine {unknown[0]!r:.40}: there are {join(ENGINES)}")
    return [(backend, of(backend, name)) for backend in backends for name in names or [""]]


def of(backend: str, name: str = "") -> type[Engine]:
    """The named engine of a backend, or its first. Raises `UnknownBackend`, and `ClusterError` for one it lacks."""
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
