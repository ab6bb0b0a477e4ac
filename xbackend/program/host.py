"""Conversion of users' values to NumPy arrays on the host, and checks of them."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from xbackend import limits
from xbackend.errors import ArgumentError, DTypeError, ShapeError, XBackendError
from xbackend.program.dtypes import DType


def check_plain(value: Any, what: str) -> None:
    """Raises `DTypeError` for arrays that mean more than their elements: masked ones and `numpy.matrix`. Raises
    `ArgumentError` for a backend's value that is not on the host."""
    if getattr(type(value), "is_device_value", False):
        raise ArgumentError(
            f"{what} is a value on a device: copy it to the host with backend.get(value); run.execute(value) takes it "
            "where it is"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(f"{what} is a masked array, whose mask would be lost; give array.filled(number), or xb.where")
    if isinstance(value, np.matrix):
        raise DTypeError(f"{what} is a np.matrix, whose * is a product of matrices; give np.asarray(matrix), and use @")


def host_array(value: Any, what: str, dtype: DType | None = None) -> np.ndarray:
    """The value as an array; ``what`` names it in messages.

    Raises `ShapeError` for nested lists of different lengths, `DTypeError` for a number out of the dtype's
    range, a masked array and a `numpy.matrix`.
    """
    check_plain(value, what)
    if type(value) is int and dtype is not None and dtype.is_integer and not dtype.least <= value <= dtype.most:
        # NumPy before version 2 would drop its high bits.
        raise DTypeError(f"{what} is {value!r:.60}, which does not fit into {dtype}")
    try:
        if dtype is not DType.float32:
            return native(np.asarray(value, dtype.value if dtype is not None else None))
        with np.errstate(over="ignore"):  # numbers beyond float32 become infinite
            return native(np.asarray(value, dtype.value))
    except OverflowError:
        raise DTypeError(f"{what} is {value!r:.60}, which does not fit into {dtype}") from None
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{what} is {value!r:.60}, which is no array: {error}") from None


def native(array: np.ndarray) -> np.ndarray:
    """The array in this machine's byte order. Arrays from files may have another one."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def check_whole(
    value: object, what: str, least: int = 1, most: float = inf, error: type[XBackendError] = ArgumentError
) -> None:
    """Raises ``error`` unless the value is a whole number from ``least`` up (to ``most``); ``what`` names it in
    messages."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise error(f"{what} is no whole number from {least} {'up' if most == inf else f'to {most}'}")


def check_fits(size: int, what: str, each: int = 0) -> None:
    """Raises `ArgumentError` before an allocation of ``size`` bytes that exceeds the memory. ``each`` is the bytes of
    one number, if known."""
    most = limits.memory()
    if size > most:
        instead = f"ask for at most {int(most // each):,} numbers" if each else "ask for less"
        raise ArgumentError(f"{what} takes {gibibytes(size)} of memory, and there are {gibibytes(most)}: {instead}")


def gibibytes(size: float) -> str:
    """A number of bytes as text in GiB."""
    return f"{min(size, 10**30) / 2**30:,.1f} GiB"
