"""What computes in a backend, read back and not repeated from what was asked for: one form for every framework."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field

import numpy as np

from xbackend.backends.threads import Pool

# How the note "stages" of a backend begins that computes on one device after the other, before why it does.
IN_TURN = "they take turns: "


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """What an adapter read of its framework.

    ``versions`` of its packages, Python's and NumPy's among them; ``devices``; ``threads`` of each pool, `None` where
    it does not tell; ``blas``, what multiplies matrices; ``settings`` of the framework that decide speed or numbers;
    ``notes``, what else a reader of seconds has to know, in words.
    """

    versions: dict[str, str] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)
    threads: dict[str, int | None] = field(default_factory=dict)
    blas: list[Pool] = field(default_factory=list)
    settings: dict[str, bool | int | float | str | None] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def versions(*packages: str) -> dict[str, str]:
    """The versions of packages, as they are imported or else installed, after those of Python and NumPy."""
    import importlib.metadata  # for 15 ms, which a program that is only traced does not wait for

    always = {"python": platform.python_version(), "numpy": np.__version__}
    imported = {p: getattr(sys.modules.get(p), "__version__", None) for p in packages}
    return always | {p: str(v) if v is not None else importlib.metadata.version(p) for p, v in imported.items()}
