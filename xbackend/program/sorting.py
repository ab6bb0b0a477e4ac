"""Rules of the op table for sorting and searching, as in `xbackend.program.shapes`."""

from __future__ import annotations

from xbackend.errors import ShapeError
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.shapes import Avals, Params


def argsort(name: str, avals: Avals, params: Params) -> Aval:
    """Positions, in the order of their elements."""
    return avals[0]._replace(dtype=DType.int64)


def searchsorted(name: str, avals: Avals, params: Params) -> Aval:
    """Positions in a sorted vector."""
    if len(avals[0].shape) != 1:
        raise ShapeError(f"searchsorted looks in a vector, not in shape {avals[0].shape}")
    return Aval(avals[1].shape, DType.int64)


def comparisons(avals: Avals, out: Aval, params: Params) -> int:
    """n * log2(n) for each sorted vector."""
    n = avals[0].shape[params["axis"]]
    return avals[0].size * max(n - 1, 0).bit_length()


def halvings(avals: Avals, out: Aval, params: Params) -> int:
    """log2(n) for each searched number."""
    return avals[1].size * avals[0].size.bit_length()
