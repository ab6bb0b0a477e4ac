"""The number of threads of a process: set before NumPy or a framework is imported, and read back."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Each library reads its variable once, when it is loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "BLIS_NUM_THREADS")


def environment(threads: int | None) -> dict[str, str]:
    """Environment variables that limit the threads of a process that has not started yet."""
    return {} if threads is None else dict.fromkeys(VARIABLES, str(threads))


_limits: dict[object, int] = {}  # of each open backend with a limit; the BLAS of a process has the last one
_before: list[dict[str, Any]] = []  # the libraries as they were without a limit, as threadpoolctl says


def limit_blas(owner: object, threads: int | None) -> Callable[[], object]:
    """Limit the threads of each BLAS loaded in this process, until the result is called or the owner is gone."""
    if threads is None:
        return lambda: None
    from threadpoolctl import threadpool_info, threadpool_limits

    if not _limits:
        _before[:] = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    own = object()
    _limits[own] = threads
    threadpool_limits(threads, user_api="blas")

    def end() -> None:
        del _limits[own]
        threadpool_limits([*_limits.values()][-1] if _limits else _before, user_api="blas")

    return weakref.finalize(owner, end)


@dataclass(frozen=True, slots=True)
class Pool:
    """A library with its own threads. ``api`` is ``blas`` or ``openmp``, ``file`` the name of its file. Unknown fields
    are `None`."""

    library: str
    version: str | None = None
    threads: int | None = None
    file: str | None = None
    api: str = "blas"
    layer: str | None = None


def pools() -> list[Pool]:
    """The libraries loaded in this process, read by threadpoolctl."""
    from threadpoolctl import threadpool_info

    every = [
        Pool(
            pool["internal_api"],
            pool.get("version"),
            pool["num_threads"],
            pool["filepath"].rsplit("/", 1)[-1],
            pool["user_api"],
            pool.get("threading_layer"),
        )
        for pool in threadpool_info()
    ]
    return sorted(every, key=lambda pool: (pool.api, pool.file or ""))
