"""PyTensor (https://pytensor.readthedocs.io): in its default mode Numba, with its C linker, and compiled by JAX."""

from __future__ import annotations

from typing import ClassVar

from xbackend.backends.lineage import LineageBackend
from xbackend.backends.lineage_modes import CMode, JAXMode, Mode, NumbaMode
from xbackend.backends.lineage_ops import Row, nan_aware


class _PyTensor(LineageBackend):
    package = "pytensor"
    flags = "PYTENSOR_FLAGS"


class PyTensorNumba(_PyTensor):
    """PyTensor's default."""

    # Numba's loop compares only: pytensor/link/numba/dispatch/elemwise.py, scalar_in_place_fn_Maximum.
    rows: ClassVar[dict[str, Row]] = {"max": nan_aware("max"), "min": nan_aware("min")}

    def make_mode(self) -> Mode:
        return NumbaMode(self)


class PyTensorC(_PyTensor):
    """PyTensor's C linker, which was its default before version 3."""

    def make_mode(self) -> Mode:
        return CMode(self)


class PyTensorJAX(_PyTensor):
    """PyTensor compiled by JAX, on JAX's devices."""

    def make_mode(self) -> Mode:
        return JAXMode(self)
