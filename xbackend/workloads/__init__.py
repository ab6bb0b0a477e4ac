"""What is compared: a workload is a function with seeded inputs, an oracle and a tolerance, in a file of its name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xbackend.errors import WorkloadError
from xbackend.workloads.agreement import relative_error, tolerance_of, ulps

if TYPE_CHECKING:
    from xbackend.workloads.workload import Workload

__all__ = ["get", "names", "relative_error", "tolerance_of", "ulps"]

_MODULES = ("matpow",)


def names() -> tuple[str, ...]:
    """The names of all workloads."""
    return _MODULES


def get(name: str) -> Workload:
    """A workload by its name. Raises `WorkloadError`, which lists those that there are."""
    if name not in _MODULES:
        raise WorkloadError(
            f"there is no workload {name!r}; there is {', '.join(_MODULES)}, and FILE.py:FUNCTION of your own"
        )
    workload: Workload = import_module(f"xbackend.workloads.{name}").WORKLOAD
    return workload


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"xbackend.workloads.{name}")
    raise AttributeError(f"module 'xbackend.workloads' has no attribute {name!r}")
