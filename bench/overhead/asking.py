"""The request to a fresh process, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from overhead import MODULES
from xbackend.errors import XBackendError
from xbackend.measure.worker import Worker, open_worker


@dataclass(frozen=True)
class Part:
    """A worker's task, with its number of virtual devices. ``threads`` are those of its BLAS, `None`: its own;
    ``cores`` are those of each device."""

    function: str
    devices: int
    threads: int | None = None
    job: dict[str, Any] = field(default_factory=dict)
    cores: int | None = None


def measure(
    backend: str,
    name: str,
    asked: Part,
    *,
    limit: float | None = 600.0,
    on_progress: Callable[[str], None] = lambda _: None,
    opener: Callable[..., Worker] = open_worker,
) -> dict[str, Any] | str:
    """The answer of a fresh process for the part, or why there is none."""
    on_progress(f"{backend}: {name}")
    try:
        worker = opener(
            backend,
            virtual_devices=asked.devices,
            threads=asked.threads,
            cores_per_device=asked.cores,
            limit=limit,
            on_progress=on_progress,
            modules=MODULES,
        )
        with worker.backend:
            found: dict[str, Any] = worker.call(asked.function, asked.job)
            return found
    except XBackendError as error:
        return str(error)
