"""What users give for arrays, as NumPy arrays on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from xbackend.errors import DTypeError, ShapeError
from xbackend.program.dtypes import DType


def check_plain(value: Any, what: str) -> None:
    """Raises `DTypeError` for arrays that mean more than their elements: masked ones and `numpy.matrix`."""
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(f"{what} is a masked array, whose mask would be lost; give array.filled(number), or xb.where")
    if isinstance(value, np.matrix):
        raise DTypeError(f"{what} is a np.matrix, whose * is a product of matrices; give np.asarray(matrix), and use @")


def host_array(value: Any, what: str, dtype: DType | None = None) -> np.ndarray:
    """The value as an array; ``what`` it is goes into the message.

    Raises `ShapeError` for nested lists of different lengths, `DTypeError` for a number out of the dtype's
    range, a masked array and a `numpy.matrix`.
    """
    check_plain(value, what)
    try:
        with np.errstate(over="ignore"):
            return np.asarray(value, dtype.value if dtype is not None else None)
    except OverflowError:
        raise DTypeError(f"{what} is {value!r:.60}, which does not fit into {dtype}") from None
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{what} is {value!r:.60}, which is no array: {error}") from None
