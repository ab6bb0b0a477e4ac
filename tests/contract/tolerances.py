"""How equal two backends' results must be. This is the only place that decides it.

Booleans and integers are equal. Floating point is within ``LIMIT`` of the element's magnitude if an op may add only one
rounding, and of the array's largest magnitude if terms are summed (sums, products of matrices, gradients: Higham,
Accuracy and Stability of Numerical Algorithms, section 3.1). NaNs have equal places, infinities are equal, and ops that
only move elements keep every bit, the sign of zero included.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

Rule = Literal["element", "array", "bits"]

# About 32 roundings: the elementary functions of XLA, Eigen, SLEEF and libm differ by a few units in the last place.
LIMIT = {"float32": 4e-6, "float64": 8e-15}
# Gradients and random programs are long chains of ops.
CHAIN = {"float32": 2e-4, "float64": 1e-11}


def check_equal(got: np.ndarray, want: np.ndarray, rule: Rule = "element", limits: dict[str, float] = LIMIT) -> None:
    """Raises `AssertionError` if dtype, shape or values differ by more than the rule allows."""
    assert isinstance(got, np.ndarray), f"{type(got)} is no array"
    assert got.dtype == want.dtype, f"dtype {got.dtype} instead of {want.dtype}"
    assert got.shape == want.shape, f"shape {got.shape} instead of {want.shape}"
    if rule == "bits" or want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        if want.dtype.kind == "f":
            numbers = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers], "sign of zero")
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    magnitude = np.abs(want[finite])
    if rule == "array":
        magnitude = np.full_like(magnitude, magnitude.max(initial=0.0))
    error = np.abs(got[finite].astype(np.float64) - want[finite])
    wrong = ~(error <= limits[want.dtype.name] * magnitude)
    assert not wrong.any(), (
        f"got {got[finite][wrong][:5]}, want {want[finite][wrong][:5]}: off by {error[wrong][:5]}, "
        f"allowed {(limits[want.dtype.name] * magnitude)[wrong][:5]}"
    )
