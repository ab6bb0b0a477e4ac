"""How many threads a process computes with: set before NumPy or a framework is imported, and read back."""

from __future__ import annotations

from dataclasses import dataclass

# Each library reads its own variable, once, when it is loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "BLIS_NUM_THREADS")


def environment(threads: int | None) -> dict[str, str]:
    """Environment variables that limit the threads of a process that has not started yet."""
    return {} if threads is None else dict.fromkeys(VARIABLES, str(threads))


def limit_blas(threads: int | None) -> None:
    """Limit the threads of each BLAS that is loaded in this process."""
    if threads is not None:
        from threadpoolctl import threadpool_limits

        threadpool_limits(threads, user_api="blas")


@dataclass(frozen=True, slots=True)
class Pool:
    """A library that computes with threads of its own.

    ``api`` is ``blas`` or ``openmp``, ``file`` the name of its file. What it does not tell is `None`.
    """

    library: str
    version: str | None = None
    threads: int | None = None
    file: str | None = None
    api: str = "blas"
    layer: str | None = None


def pools() -> list[Pool]:
    """Those loaded in this process, as threadpoolctl reads them."""
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
