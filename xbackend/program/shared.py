"""Shared variables: state that lives on a device between calls (Theano's word)."""

from __future__ import annotations

import itertools
import secrets
from typing import Any

import numpy as np

from xbackend.devices import Device, canonical
from xbackend.errors import DTypeError, SharedVariableError, TraceError
from xbackend.program.dtypes import DType, as_dtype
from xbackend.program.host import host_array
from xbackend.program.operators import Operators

_numbers = itertools.count()


class SharedVariable(Operators):
    """A named value that programs read and update; made by `xbackend.shared`.

    The object holds the initial value only. Each backend has its own storage, read with ``backend.get_value(w)`` and
    written with ``backend.set_value(w, array)``. A traced function uses it like an array.

    >>> weights = xb.shared(np.arange(3.0), "weights")
    >>> weights.name, weights.shape, weights.dtype, weights.value
    ('weights', (3,), <DType.float64: 'float64'>, array([0., 1., 2.]))
    >>> backend.compile(lambda: xb.update(weights, 2.0 * weights))()
    ()
    >>> backend.get_value(weights)
    array([0., 2., 4.])
    """

    def __init__(
        self, value: Any, name: str | None = None, device: str | Device | None = None, *, uid: str = ""
    ) -> None:
        array = host_array(value, "the value of a shared variable")
        if name is not None and (not isinstance(name, str) or not name):
            raise SharedVariableError(f"the name of a shared variable is text, not {name!r}")
        self.unnamed = name is None  # by its user
        self.name = name or f"shared_{next(_numbers)}"
        try:
            self._dtype = as_dtype(array.dtype)
        except DTypeError as error:
            raise DTypeError(f"shared variable {self.name!r}: {error}") from None
        self._value = array.copy()
        self._value.flags.writeable = False
        self.device = canonical(device) if device is not None else None
        # The identity of the storage on a backend: names need not be unique, and stored programs bring the variables of
        # other processes.
        self.uid = uid or f"{self.name}/{secrets.token_hex(16)}"

    @property
    def value(self) -> np.ndarray:
        """The initial value (read-only). A backend's current one is ``backend.get_value(w)``."""
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, which no value changes."""
        return self._value.shape

    @property
    def dtype(self) -> DType:
        """The dtype, which no value changes."""
        return self._dtype

    def __bool__(self) -> bool:
        raise TraceError(
            f"if, while, and, or, not or bool() needs the elements of {self!r}: write xb.where for a choice by value; "
            "outside of a program backend.get_value(w)"
        )

    def __repr__(self) -> str:
        where = f" on {self.device}" if self.device else ""
        return f"<shared {self.name}: {self.dtype}{list(self.shape)}{where}>"
