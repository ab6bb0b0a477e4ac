"""A^n + B^n: the 'hello world' of programs on two devices.

Source: TensorFlow-Examples, multigpu_basics (2016), which raises two 10000 x 10000 uniform matrices to the 10th power.
Its recursion stops one step late and computes the 11th power. Its matrices are not scaled: an entry of the result is
about 5e36, one product short of overflowing float32. Here the power is n, and the scale 2/size brings the largest
eigenvalue of a uniform matrix to about 1: powers neither overflow nor vanish.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.program.host import check_fits
from xbackend.workloads.workload import Workload, check_choice, check_count

LONGEST = 10_000  # products of a chain: frameworks do not compile longer programs


def sum_of_powers(a: Any, b: Any, *, n: int = 10, method: str = "chain") -> Any:
    """A^n + B^n, the powers on two logical devices, the sum on the CPU: arrays of shape (m, m)."""
    with xb.device("dev0"):
        an = xb.linalg.matrix_power(a, n, method=method)
    with xb.device("dev1"):
        bn = xb.linalg.matrix_power(b, n, method=method)
    with xb.device("cpu:0"):
        return an + bn


# 512 x 512: a call takes some 20 ms on two cores, long against every framework's own cost and the clock. All backends
# take three minutes, mostly for imports and compilers.
WORKLOAD = Workload(
    sum_of_powers,
    name="matpow",
    sweep={"size": 1024, "n": 10, "dtype": "float32", "method": "chain"},
    quick={"size": 512},
)


def program(**parameters: Any) -> Callable[..., Any]:
    """The function to trace."""
    return WORKLOAD.traced(parameters)


@WORKLOAD.inputs
def _drawn(rng: np.random.Generator, *, size: int = 1024, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """Two matrices of shape (size, size), uniform in [0, 2/size)."""
    scale = 2.0 / max(size, 1)
    a, b = (rng.random((size, size)) * scale for _ in range(2))
    return a.astype(dtype), b.astype(dtype)


def inputs(size: int = 1024, seed: int = 0, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """Two matrices of shape (size, size), uniform in [0, 2/size), the same for a seed on every machine."""
    a, b = _drawn(np.random.default_rng(seed), size=size, dtype=dtype)
    return a, b


@WORKLOAD.oracle
def oracle(a: np.ndarray, b: np.ndarray, *, n: int = 10) -> np.ndarray:
    """A^n + B^n in float64."""
    an, bn = (np.linalg.matrix_power(x.astype(np.float64), n) for x in (a, b))
    result: np.ndarray = an + bn
    return result


@WORKLOAD.tolerance
def tolerance(size: int = 1024, n: int = 10, dtype: str = "float32") -> float:
    """The largest relative error that passes: sqrt(size) roundings for each product, times two for safety.

    Higham, Accuracy and Stability of Numerical Algorithms, section 3.5 (error of matrix products), with the
    probabilistic bound sqrt(m) in place of m.
    """
    return 2.0 * max(n, 1) * float(np.sqrt(max(size, 1))) * float(np.finfo(dtype).eps)


@WORKLOAD.check
def check(size: int, n: int, dtype: str, method: str) -> None:
    """Refuse invalid parameters early. Raises `WorkloadError`, `ArgumentError`."""
    check_count("matpow", "size", size, 0, 10**9)
    check_choice("matpow", "dtype", dtype, ("float32", "float64"))
    check_choice("matpow", "method", method, ("chain", "squaring"))
    check_count("matpow", "n", n, 0, LONGEST if method == "chain" else 2**63 - 1)
    check_fits(2 * 8 * size * size, f"workload matpow with size={size}")  # drawn as float64
