"""A mode: what a value is, and what the innermost callable of a compiled stage is."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xbackend.backends.contract import Backend, Value
from xbackend.backends.threads import Pool
from xbackend.devices import Device

Call = Callable[..., Sequence[Value]]


class Compiled(NamedTuple):
    """A compiled stage: its innermost callable, and the device that the framework says its outputs are on."""

    call: Call
    device: Device


class Mode(abc.ABC):
    """One way to compute, and what its values are. ``start`` is called before anything else."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    added: tuple[str, ...] = ()  # as `Backend.added`
    mutates: ClassVar[bool]  # whether a compiled function may overwrite an input that it is allowed to
    evidence: ClassVar[str]  # how the device of a stage is known
    stages: ClassVar[str]  # what stages on different devices do at the same time
    # Waits for what updates will hold, and raises where it cannot be computed; `None` where the framework keeps errors.
    confirm: Callable[[Sequence[Value]], None] | None = None

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @property
    def plain(self) -> bool:
        """Whether a program of one stage can be its innermost callable, with nothing around it."""
        return True

    @abc.abstractmethod
    def start(self) -> Iterable[Device]:
        """Make ready; return the visible devices."""

    @abc.abstractmethod
    def put(self, array: np.ndarray, device: Device) -> Value:
        """A copy of the array on the device."""

    @abc.abstractmethod
    def mover(self, device: Device) -> Callable[[Value], Value]:
        """What returns a copy of a value on the device, possibly before it is made."""

    @abc.abstractmethod
    def device_of(self, value: Value) -> Device:
        """Where the value is."""

    def on_device(self, compiled: Compiled, count: int) -> Call:
        """The callable of a stage in a program of several, with so many results; it does not wait for them."""
        return compiled.call

    def synchronize(self, values: Iterable[Value]) -> None:
        """Return when the values are computed."""

    # A compiled function may take and return less than a value: its *content*.

    def content(self, value: Value) -> Any:
        """What a compiled function takes for the value, once that is computed."""
        return value

    def value(self, content: Any, device: Device) -> Value:
        """The value of what a compiled function returned on the device."""
        return content

    def finish(self, contents: Sequence[Any]) -> None:
        """Return when these are computed."""

    def copy(self, content: Any, device: Device) -> Any:
        """A copy of the content on the device, possibly before it is made."""
        return self.mover(device)(content)

    def get(self, value: Value) -> np.ndarray:
        """A copy of the value on the host."""
        return np.array(value)

    def shut(self) -> None:
        """Free what the mode holds."""

    @abc.abstractmethod
    def compilations(self) -> dict[str, int]:
        """As `Backend.compilations`."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """As `Backend.is_out_of_memory`."""
        return isinstance(error, MemoryError)

    def threads(self) -> dict[str, int | None]:
        """Threads of pools that threadpoolctl does not know."""
        return {}

    @abc.abstractmethod
    def blas(self) -> Pool:
        """What products of matrices are computed with."""

    def settings(self) -> dict[str, Any]:
        """The framework's, as in `Description`."""
        return {}
