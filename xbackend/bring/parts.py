"""Parts of an array along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xbackend.api.functions as xb


def parts(array: Any, axis: int, lengths: Sequence[int]) -> list[Any]:
    """The parts of these lengths, one behind the other along an axis, which may count from the end."""
    whole, begin, found = xb.asarray(array), 0, []
    before = (slice(None),) * (axis % whole.ndim)
    for length in lengths:
        found.append(whole[(*before, slice(begin, begin + length))])
        begin += length
    return found
