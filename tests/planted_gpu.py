"""A GPU that fails, planted in a worker: what a program raises there when it is called."""

from __future__ import annotations

from typing import Any

from xbackend.backends.contract import Built
from xbackend.backends.placement import Execution
from xbackend.devices import Device


class XlaRuntimeError(RuntimeError):
    """As JAX calls its own."""


def fail(backend: Any, text: str) -> None:
    """From now on programs of the backend raise this; it has a GPU, and knows XLA's words."""

    def execute(*_: Any) -> Any:
        raise XlaRuntimeError(text)

    backend.devices = (*backend.devices, Device("gpu"))
    backend.build = lambda program: Built(execute, lambda: Execution({}, ()))
    known = backend.is_out_of_memory
    backend.is_out_of_memory = lambda error: known(error) or "RESOURCE_EXHAUSTED" in str(error)
