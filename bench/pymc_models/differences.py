"""How far numbers are off."""

from __future__ import annotations

from typing import Any

import numpy as np


def off(one: Any, own: Any) -> float:
    """The largest difference, relative to the largest number; infinite where other elements are not finite."""
    one, own = np.asarray(one, float), np.asarray(own, float)
    finite = np.isfinite(own)
    if not np.array_equal(one[~finite], own[~finite], equal_nan=True) or not np.isfinite(one[finite]).all():
        return float("inf")
    largest = max(float(np.abs(own[finite]).max(initial=0.0)), float(np.finfo(float).tiny))
    return float(np.abs(one[finite] - own[finite]).max(initial=0.0)) / largest
