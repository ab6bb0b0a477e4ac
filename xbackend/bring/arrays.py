"""Splits of arrays, and diagonals of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.program.dtypes import DType


def parts(array: Any, axis: int, lengths: Sequence[int]) -> list[Any]:
    """The consecutive parts of these lengths along an axis."""
    whole = xb.asarray(array)
    before, ends = (slice(None),) * (axis % whole.ndim), accumulate(lengths, initial=0)
    return [whole[(*before, slice(begin, end))] for begin, end in pairwise(ends)]


def is_diagonal(shape: tuple[int, ...], k: int = 0) -> Any:
    """A mask of shape ``shape[-2:]``, true on the ``k``-th diagonal."""
    rows, columns = (xb.arange(n, dtype=DType.int64) for n in shape[-2:])
    return xb.equal(xb.expand_dims(rows, axis=-1), xb.subtract(columns, k))


def on_diagonal(diagonal: Any, shape: tuple[int, ...], k: int = 0, matrix: Any = None) -> Any:
    """Matrices whose ``k``-th diagonal is ``diagonal``; the other elements are those of ``matrix``, by default 0."""
    matrix = xb.zeros((), dtype=str(diagonal.dtype)) if matrix is None else matrix
    places = np.clip(np.arange(shape[-2]) + min(k, 0), 0, max(diagonal.shape[-1] - 1, 0))
    spread = xb.expand_dims(xb.take(diagonal, places, axis=-1), axis=-1)  # the same in all columns
    return xb.where(is_diagonal(shape, k), spread, matrix)


def with_ones(matrix: Any) -> Any:
    """Matrices with ones on their diagonal."""
    return xb.where(is_diagonal(matrix.shape), xb.ones((), dtype=str(matrix.dtype)), matrix)
