"""Arrays as arguments of a command line: ``float32[3,4]``, ``2.5``, ``FILE.npy``."""

from __future__ import annotations

import math
import re
import stat
from pathlib import Path

import numpy as np

from xbackend.errors import UsageError, XBackendError
from xbackend.program.dtypes import DType, as_dtype
from xbackend.program.host import check_fits

_SHAPED = re.compile(r"(?P<dtype>[a-z]+[0-9]*)\[(?P<shape>[0-9, ]*)\]$")
_DRAWN = 8  # bytes of a random number before its cast to the dtype


def spelled(text: str, what: str, generator: np.random.Generator) -> np.ndarray:
    """An array: random numbers of a dtype and a shape, a number as int64 or float64, or the content of a file.

    ``what`` names it in messages. Raises `UsageError`, `ArgumentError` where it does not fit into the memory,
    `DTypeError`.
    """
    if text.endswith(".npy"):
        return _stored(Path(text), what)
    shaped = _SHAPED.match(text)
    if shaped is None:
        return _number(text, what)
    dtype, shape = _shaped(shaped, what)
    each = _DRAWN + dtype.itemsize
    check_fits(math.prod(shape) * each, what, each)
    try:
        if dtype.is_floating:
            return generator.random(shape).astype(dtype.value)
        return generator.integers(0, 2 if dtype == "bool" else 10, shape).astype(dtype.value)
    except ValueError as error:  # more axes, or a longer one, than NumPy has
        raise UsageError(f"{what}: {error}") from None


def size(text: str, what: str) -> int:
    """The bytes of a spelled array; 0 if the text is neither a shape nor a file. Raises `DTypeError`."""
    shaped = _SHAPED.match(text)
    if shaped is not None:
        dtype, shape = _shaped(shaped, what)
        return math.prod(shape) * dtype.itemsize
    path = Path(text)
    return path.stat().st_size if text.endswith(".npy") and path.is_file() else 0


def _shaped(found: re.Match[str], what: str) -> tuple[DType, tuple[int, ...]]:
    lengths = found["shape"].replace(",", " ").split()
    return as_dtype(found["dtype"], f"{what}: dtype"), tuple(int(n[:20]) for n in lengths)


def _number(text: str, what: str) -> np.ndarray:
    try:
        number = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        raise UsageError(f"{what} is no number, no FILE.npy and not like float32[3,4]") from None
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise UsageError(f"{what} does not fit into int64; write {text}.0 for a float64")
    return np.asarray(number)


def _stored(path: Path, what: str) -> np.ndarray:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait
            raise UsageError(f"{what} is no file")
        check_fits(status.st_size, what)
        with path.open("rb") as file:
            array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    except XBackendError:
        raise
    except Exception as error:  # a damaged header fails in NumPy's parser, in many ways
        raise UsageError(f"{what}: {getattr(error, 'strerror', None) or error}") from None
    return array
