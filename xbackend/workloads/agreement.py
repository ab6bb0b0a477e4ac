"""How much results differ, and how much the results of equal programs may differ."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from xbackend.wording import counted


def relative_error(result: Any, oracle: Any) -> float:
    """The largest deviation from the oracle divided by the oracle's largest magnitude, over all arrays.

    0 for empty arrays; infinite where one is NaN or infinite and the other is not, or where shapes differ.

    >>> round(xb.workloads.relative_error([1.0, 2.2], np.asarray([1.0, 2.0])), 6)
    0.1
    """
    if isinstance(oracle, list | tuple):
        pairs: Sequence[tuple[Any, Any]] = list(zip(result, oracle, strict=True))
        return max((relative_error(r, o) for r, o in pairs), default=0.0)
    got, want = np.asarray(result), np.asarray(oracle)
    if got.shape != want.shape:
        return float("inf")
    if want.size == 0:
        return 0.0
    difference = differences(got, want)
    if not np.isfinite(difference).all():
        return float("inf")
    magnitude = np.abs(want.astype(np.float64))
    finite = magnitude[np.isfinite(magnitude)]
    scale = float(finite.max()) if finite.size else 0.0
    largest = float(difference.max())
    return largest / scale if scale else largest


def differences(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The magnitude of each element's difference in float64: 0 for equal ones, infinities and NaN included."""
    if np.result_type(one, other).kind in "bui":
        # float64 lacks most of the large int64; uint64 has the difference of any two.
        low, high = (pick(one, other).astype(np.uint64) for pick in (np.minimum, np.maximum))
        return np.asarray(high - low, np.float64)
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, np.abs(one - other))


DETERMINED = 1e-2  # relative error: beyond it fewer than two digits are determined


class Agreement(StrEnum):
    """The outcome of comparing a result with its oracle."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDETERMINED = "not determined"
    UNVERIFIED = "not verified"


@dataclass(frozen=True)
class Verified:
    """A comparison's outcome, its relative error (`None` if not finite or without numbers), and why it does not
    agree."""

    agreement: Agreement
    error: float | None
    reason: str = ""


def verified(
    result: Any, expected: Any, tolerance: float, *, undetermined: str = "", allow_nan: bool = False
) -> Verified:
    """Whether a result agrees with the expected one. Every verdict on numbers comes from here.

    It *differs* if the relative error is above ``tolerance``. Otherwise it is *not verified* if elements are NaN in
    both, unless ``allow_nan``: NaN proves no agreement. If the program's precision does not determine the result
    (``undetermined`` says why), there is an error but no verdict.
    """
    error = relative_error(result, expected)
    known = error if math.isfinite(error) else None
    if not undetermined and not error <= tolerance:
        return Verified(
            Agreement.DIFFERS,
            known,
            f"relative error {error:.2g} against the float64 oracle, {tolerance:.2g} is allowed"
            + ("" if known is not None else "; what rewrites make of NaN, infinities and overflow: docs/numbers.md"),
        )
    missing = 0 if known is None else without_number(expected)
    if missing and not allow_nan:
        return Verified(Agreement.UNVERIFIED, None, f"{no_number(missing)} or an oracle of your own")
    if undetermined:
        return Verified(Agreement.UNDETERMINED, known, f"not determined in this precision: {undetermined}; {_MORE}")
    return Verified(Agreement.AGREES, known)


_MORE = "take float64, other inputs, or a tolerance of your own"


DOUBTFUL = (
    "so that the oracle, or what passes, may be what is wrong, or the precision too low: look with float64, or with an "
    "oracle of your own"
)


def most(differ: int, compared: int) -> bool:
    """Whether most results differ from the oracle: the oracle itself may be wrong then."""
    return differ > 1 and 2 * differ > compared


def no_number(count: int, kind: str = "NaN") -> str:
    """Why a result with ``count`` elements that are no number is not verified, and what to type."""
    return (
        f"{counted(count, 'element')} {'is' if count == 1 else 'are'} {kind}, which verifies nothing: look for what "
        "made it, or say that it is right with --allow-nan"
    )


def without_number(arrays: Any) -> int:
    """The number of NaN elements in floating-point arrays."""
    each = arrays if isinstance(arrays, list | tuple) else [arrays]
    return sum(int(np.isnan(array).sum()) for array in map(np.asarray, each) if array.dtype.kind == "f")


INFINITE = "NaN or infinite"  # of trained weights, which may overflow


def not_finite(arrays: Iterable[Any]) -> int:
    """The number of NaN or infinite elements in floating-point arrays."""
    return sum(int((~np.isfinite(array)).sum()) for array in map(np.asarray, arrays) if array.dtype.kind == "f")


def apart(pairs: Iterable[tuple[Any, Any]]) -> float:
    """The largest relative error of pairs of arrays. An infinite one becomes the largest float, for the results."""
    return min(max((relative_error(one, other) for one, other in pairs), default=0.0), sys.float_info.max)


_TRAINED = {"float32": DETERMINED, "float64": 1e-5}  # roundings grow over many steps


def of_roundings(dtypes: Sequence[str]) -> float:
    """The largest relative difference of trained weights that roundings alone may cause."""
    return max((_TRAINED[name] for name in dtypes if name in _TRAINED), default=0.0)


def ulps(result: Any, oracle: Any) -> float | None:
    """The largest deviation of an element from the oracle in units in the last place, over all floating-point arrays.

    The unit is the distance from the oracle's value, rounded to the result's dtype, to the next number of that dtype
    (Goldberg, *What Every Computer Scientist Should Know About Floating-Point Arithmetic*, 1991). `None` where no array
    is floating-point, or where a deviation is not finite or an array of another shape.

    >>> xb.workloads.ulps(np.float32(1.0) + np.float32(2.0**-23), np.float64(1.0))
    1.0
    """
    largest = [*_in_ulps(result, oracle)]
    return max(largest) if largest and np.isfinite(largest).all() else None


def _in_ulps(result: Any, oracle: Any) -> Iterator[float]:
    """The largest deviation of each floating-point array, in units in the last place."""
    if isinstance(oracle, list | tuple):
        for got, want in zip(result, oracle, strict=True):
            yield from _in_ulps(got, want)
        return
    got, want = np.asarray(result), np.asarray(oracle, np.float64)
    if got.dtype.kind != "f":
        return
    if got.shape != want.shape:
        yield math.inf
    elif got.size:
        with np.errstate(invalid="ignore", over="ignore"):
            unit = np.spacing(np.abs(want.astype(got.dtype))).astype(np.float64)
            difference = differences(got, want)
            yield float(np.max(np.divide(difference, unit, out=np.zeros_like(unit), where=difference != 0)))
