"""Which wheels an environment takes: those for CPUs, or those for the GPUs that this machine's driver can run.

`requirements/jax+cuda13.in` and its lock are those of environment ``jax`` for CUDA 13. A driver runs wheels for its own
CUDA version and for older ones (https://docs.nvidia.com/deploy/cuda-compatibility).
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path

from xbackend.errors import EnvironmentFailed

VARIABLE = "XBACKEND_ACCELERATOR"
LIBRARY = "libcuda.so.1"  # the driver's own
NONE = "none"
KINDS = {"cuda13": 13, "cuda12": 12}  # the newest first, with the CUDA version that the driver must run


def chosen() -> str:
    """The kind of accelerator that environments are made for: that of `XBACKEND_ACCELERATOR` (the option
    ``--accelerator``), else the newest one that the driver runs, else ``none``.

    Raises:
        EnvironmentFailed: `XBACKEND_ACCELERATOR` names no kind.
    """
    asked = os.environ.get(VARIABLE, "").strip()
    if asked not in ("", NONE, *KINDS):
        raise EnvironmentFailed(f"{VARIABLE}: {asked!r} is no kind of accelerator: write {', '.join((*KINDS, NONE))}")
    major = driver()[0]
    return asked or next((kind for kind, needed in KINDS.items() if major >= needed), NONE)


def lock_for(framework: str, folder: Path) -> str:
    """The kind in the name of the newest lock that the framework has for the chosen accelerator; empty: its own lock.

    A framework without wheels for CUDA 13 takes those for CUDA 12. One without any computes on the CPU.
    """
    kinds = list(KINDS)
    wanted = chosen()
    fitting = kinds[kinds.index(wanted) :] if wanted in kinds else []
    return next((kind for kind in fitting if (folder / f"{framework}+{kind}.txt").exists()), "")


def of_interpreter(python: Path) -> str:
    """The kind of accelerator whose wheels are in the environment of this interpreter, by its folder's name, such as
    ``jax+cuda13-3.13-97db3ae04d1``; empty for those for CPUs and for an interpreter of the user's."""
    return next((kind for kind in KINDS if any(f"+{kind}-" in part for part in python.parts)), "")


@functools.cache
def driver() -> tuple[int, int]:
    """The newest CUDA version that the driver runs, (13, 0); (0, 0) without a driver."""
    version = ctypes.c_int(0)
    try:
        # cuDriverGetVersion needs no device and starts nothing: 1000 * major + 10 * minor.
        ctypes.CDLL(LIBRARY).cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):  # no driver, or a file that is none
        return (0, 0)
    return version.value // 1000, version.value % 1000 // 10
