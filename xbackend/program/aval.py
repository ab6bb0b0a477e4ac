"""The shape and the dtype of a value, known before it exists."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from xbackend.program.dtypes import DType


class Aval(NamedTuple):
    """A static shape and a dtype, without the elements (JAX's word for it: an abstract value)."""

    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the elements."""
        return self.size * self.dtype.itemsize
