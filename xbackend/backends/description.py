"""The description of a backend, read back from its framework."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field

import numpy as np

from xbackend.backends.threads import Pool

# The beginning of the note "stages" of a backend whose devices do not overlap; the reason follows.
IN_TURN = "they take turns: "


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """An adapter's reading of its framework: ``versions`` of packages; the number of ``threads`` of each pool, `None`
    if unknown; ``blas``, the libraries for matrix products; ``settings`` that affect speed or numbers; ``notes`` that a
    reader of seconds must know."""

    versions: dict[str, str] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)
    threads: dict[str, int | None] = field(default_factory=dict)
    blas: list[Pool] = field(default_factory=list)
    settings: dict[str, bool | int | float | str | None] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python, NumPy and these packages (imported, else installed)."""
    import importlib.metadata  # it takes 15 ms, which tracing alone does not need

    always = {"python": platform.python_version(), "numpy": np.__version__}
    imported = {p: getattr(sys.modules.get(p), "__version__", None) for p in packages}
    return always | {p: str(v) if v is not None else importlib.metadata.version(p) for p, v in imported.items()}
