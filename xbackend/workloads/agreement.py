"""By how much results differ, and by how much those of equal programs may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from xbackend.program.program import Program


def relative_error(result: Any, oracle: Any) -> float:
    """The largest deviation from the oracle divided by the oracle's largest magnitude, over all arrays.

    0 for empty arrays; infinite where one is NaN or infinite and the other is not, or where shapes differ.
    """
    if isinstance(oracle, list | tuple):
        pairs: Sequence[tuple[Any, Any]] = list(zip(result, oracle, strict=True))
        return max((relative_error(r, o) for r, o in pairs), default=0.0)
    got, want = np.asarray(result, np.float64), np.asarray(oracle, np.float64)
    if got.shape != want.shape:
        return float("inf")
    if want.size == 0:
        return 0.0
    with np.errstate(invalid="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        difference = np.where(same, 0.0, np.abs(got - want))
    if not np.isfinite(difference).all():
        return float("inf")
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 0.0
    largest = float(difference.max())
    return largest / scale if scale else largest


_LEAST = {"float32": 1e-4, "float64": 1e-10}  # a tolerance that needs no derivation: most programs are within it


def tolerance_of(program: Program) -> float:
    """The largest relative error that passes for any program: each op may lose sqrt(size) roundings, twice over for
    safety, ``size`` being the longest axis; 0 where no output is floating-point.

    Higham, Accuracy and Stability of Numerical Algorithms, section 3.5, with the probabilistic bound.
    """
    floating = [node for node in program.nodes if node.dtype.is_floating]
    longest = max((n for node in floating for n in node.shape), default=1)
    roundings = 2.0 * len(floating) * max(longest, 1) ** 0.5
    names = {program.nodes[i].dtype.value for i in program.outputs} & {*_LEAST}
    return max((max(_LEAST[n], roundings * float(np.finfo(n).eps)) for n in names), default=0.0)


_TRAINED = {"float32": 1e-2, "float64": 1e-5}  # many steps make more of roundings than one does


def agree(difference: float, dtypes: Sequence[str]) -> bool:
    """Whether weights after a training are those of another one of the same model but for roundings, by the largest
    relative error of them."""
    return difference <= of_roundings(dtypes)


def of_roundings(dtypes: Sequence[str]) -> float:
    """The largest relative difference after a training that roundings alone may make."""
    return max((_TRAINED[name] for name in dtypes if name in _TRAINED), default=0.0)


def ulps(result: Any, oracle: Any) -> float | None:
    """The largest deviation of an element from the oracle in units in the last place, over all floating-point arrays.

    The unit is the distance from the oracle's value, rounded to the dtype of the result, to the next number of that
    dtype (Goldberg, *What Every Computer Scientist Should Know About Floating-Point Arithmetic*, 1991). `None` where no
    array is floating-point, or the largest is not finite.
    """
    if isinstance(oracle, list | tuple):
        errors = [ulps(r, o) for r, o in zip(result, oracle, strict=True)]
        return max((e for e in errors if e is not None), default=None)
    got, want = np.asarray(result), np.asarray(oracle, np.float64)
    if got.dtype.kind != "f" or got.shape != want.shape or not got.size:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        unit = np.spacing(np.abs(want.astype(got.dtype))).astype(np.float64)
        difference = np.where(got == want, 0.0, np.abs(got.astype(np.float64) - want))
        largest = float(np.max(difference / unit))
    return largest if np.isfinite(largest) else None
