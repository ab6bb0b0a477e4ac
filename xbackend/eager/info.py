"""The inspection API of a namespace.

https://data-apis.org/array-api/2025.12/API_specification/inspection.html
"""

from __future__ import annotations

from xbackend.api.functions.dtype_functions import isdtype
from xbackend.devices import Device
from xbackend.eager.runner import Runner
from xbackend.program.dtypes import DType

_DEFAULTS = {"real floating": DType.float64, "integral": DType.int64, "indexing": DType.int64}


class Info:
    """The result of `__array_namespace_info__`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def capabilities(self) -> dict[str, bool | int | None]:
        """Masks and shapes that depend on values work, over the host: docs/namespace.md."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        """The device of new arrays without ``device``."""
        return self._runner.backend.default_device

    def devices(self) -> tuple[Device, ...]:
        """The devices of the backend."""
        return self._runner.backend.devices

    def default_dtypes(self, *, device: str | Device | None = None) -> dict[str, DType]:
        """The dtypes of new arrays without ``dtype``, the same on every device. There are no complex ones."""
        self._runner.device(device)
        return dict(_DEFAULTS)

    def dtypes(
        self, *, device: str | Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The dtypes by name: all, or those of one or several kinds. Raises `DTypeError`."""
        self._runner.device(device)
        return {dtype.value: dtype for dtype in DType if kind is None or isdtype(dtype, kind)}
