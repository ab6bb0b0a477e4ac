"""The storage of shared variables on one backend, for as long as a user or a program holds the variable."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from xbackend.devices import Device

if TYPE_CHECKING:
    import numpy as np

    from xbackend.program.shared import SharedVariable


class Cell:
    """The storage of a shared variable: its value, and the device that it is on."""

    __slots__ = ("device", "value")

    def __init__(self, value: Any, device: Device) -> None:
        self.value, self.device = value, device


class Storages:
    """By the uid of a variable: ``made``, the framework's storage and its device; ``given``, a value set before that.

    Two objects may stand for one variable, as that of a program which was read back; the last one counts.
    """

    def __init__(self) -> None:
        self.made: dict[str, tuple[Any, Device]] = {}
        self.given: dict[str, np.ndarray] = {}
        self._holders: dict[str, dict[int, weakref.ref[SharedVariable]]] = {}

    def keep(self, variable: SharedVariable) -> None:
        """Keep what belongs to the variable until it is gone."""
        made, given, holders, uid, number = self.made, self.given, self._holders, variable.uid, id(variable)

        def gone(_: object) -> None:  # not a method: it would keep the backend
            mine = holders.get(uid, {})
            mine.pop(number, None)
            if not mine:
                for each in (made, given, holders):
                    each.pop(uid, None)

        mine = holders.setdefault(uid, {})
        if number not in mine:
            mine[number] = weakref.ref(variable, gone)

    def clear(self) -> None:
        """Forget all of them."""
        for each in (self.made, self.given, self._holders):
            each.clear()


def alone(lock: AbstractContextManager[Any], execute: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    """The callable for programs with state: one of a backend at a time, so that no update of another is lost."""

    def locked(*values: Any) -> Sequence[Any]:
        with lock:
            return execute(*values)

    return locked
