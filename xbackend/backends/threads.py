"""The number of threads of a process: set before NumPy or a framework is imported, and read back."""

from __future__ import annotations

from dataclasses import dataclass

# Each library reads its variable once, when it is loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "BLIS_NUM_THREADS")


def environment(threads: int | None) -> dict[str, str]:
    """Environment variables that limit the threads of a process that has not started yet."""
    return {} if threads is None else dict.fromkeys(VARIABLES, str(threads))


def limit_blas(threads: int | None) -> None:
    """Limit the threads of each BLAS loaded in this process."""
    if threads is not None:
        from threadpoolctl import threadpool_limits

        threadpool_limits(threads, user_api="blas")


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
