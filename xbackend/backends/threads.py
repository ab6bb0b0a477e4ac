"""How many threads a process computes with: what is set before NumPy or a framework is imported, and what is read
back."""

from __future__ import annotations

from typing import Any

# Each library reads its own variable, once, when it is loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "BLIS_NUM_THREADS")


def environment(threads: int | None) -> dict[str, str]:
    """Environment variables that limit the threads of a process that has not started yet."""
    return {} if threads is None else dict.fromkeys(VARIABLES, str(threads))


def pools() -> list[dict[str, Any]]:
    """The thread pools of the libraries loaded in this process (BLAS and OpenMP), as threadpoolctl reads them.

    One dictionary each: ``library``, ``version``, ``threads``, ``file`` (its name only), ``api``, ``layer``.
    """
    from threadpoolctl import threadpool_info

    loaded = [
        {
            "library": pool["internal_api"],
            "version": pool.get("version"),
            "threads": pool["num_threads"],
            "file": pool["filepath"].rsplit("/", 1)[-1],
            "api": pool["user_api"],
            "layer": pool.get("threading_layer"),
        }
        for pool in threadpool_info()
    ]
    return sorted(loaded, key=lambda pool: (pool["api"], pool["file"]))
