"""Workloads to compare: each is a function with seeded inputs, an oracle and a tolerance, in a file of its name.

The folders here are the suites. The files in a folder are its workloads; a new file is a new workload.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xbackend.errors import WorkloadError
from xbackend.wording import suggested
from xbackend.workloads.agreement import relative_error, ulps

if TYPE_CHECKING:
    from xbackend.workloads.workload import Workload

__all__ = ["ALL", "get", "names", "of_suite", "relative_error", "suites", "ulps"]

ALL = "all"  # the suite of all suites


@cache
def suites() -> dict[str, tuple[str, ...]]:
    """The names of the workloads of each suite, by its name.

    >>> list(xb.workloads.suites())
    ['kernels', 'models']
    """
    folders = sorted(path.parent for path in Path(__file__).parent.glob("*/__init__.py"))
    found = {each.name: tuple(sorted(p.stem for p in each.glob("[!_]*.py"))) for each in folders}
    return {name: workloads for name, workloads in found.items() if workloads}


def names() -> tuple[str, ...]:
    """The names of all workloads.

    >>> "matpow" in xb.workloads.names()
    True
    """
    return tuple(name for workloads in suites().values() for name in workloads)


def get(name: str) -> Workload:
    """A workload by its name. Raises `WorkloadError`, which lists the workloads.

    >>> xb.workloads.get("matpow").summary
    'A^n + B^n, the powers on two logical devices, the sum on the CPU: arrays of shape (m, m).'
    """
    from xbackend.workloads.workload import Workload

    if name not in names():
        raise WorkloadError(
            f"there is no workload {name!r}; there is {', '.join(names())}, and FILE.py:FUNCTION of your own"
            f"{suggested(name, names())}"
        )
    there = vars(_module(name)).values()
    return next(one for one in there if isinstance(one, Workload) and one.name == name)


def of_suite(name: str) -> list[Workload]:
    """The workloads of a suite; of all suites for `ALL`. Raises `WorkloadError`, which lists the suites.

    >>> len(xb.workloads.of_suite("all")) == len(xb.workloads.names())
    True
    """
    if name not in (ALL, *suites()):
        raise WorkloadError(
            f"there is no suite {name!r}; there is {', '.join([*suites(), ALL])}{suggested(name, suites())}"
        )
    return [get(workload) for suite, each in suites().items() if name in (ALL, suite) for workload in each]


def _module(name: str) -> Any:
    suite = next(suite for suite, workloads in suites().items() if name in workloads)
    return import_module(f"{__name__}.{suite}.{name}")


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in names():
        return _module(name)
    raise AttributeError(f"module 'xbackend.workloads' has no attribute {name!r}{suggested(name, names())}")
