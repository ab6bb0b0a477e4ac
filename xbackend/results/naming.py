"""The names of measurements: the workload with its parameters, the backend with its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xbackend.wording import pairs, plain

GRADIENT = "+gradient"  # behind the name of a workload: its value and the gradient of that
FILE = "from"  # the parameter with the file of a user's function: a keyword, so no argument has that name


def label(backend: str, environment: str) -> str:
    """As in ``pytensor (pytensor==2.38.3)``, or ``pytensor`` in the locked environment."""
    return f"{backend} ({environment})" if environment else backend


def described(workload: str, parameters: Mapping[str, Any]) -> str:
    """As in ``matpow size=512, n=10, dtype=float32, method=chain``."""
    return " ".join(filter(None, (plain(workload), pairs(parameters))))


def names(backend: str, environment: str) -> list[str]:
    """The names that a reader may use for it: the backend, the environment, or both as in its label."""
    return [backend, *([environment, label(backend, environment)] if environment else [])]
