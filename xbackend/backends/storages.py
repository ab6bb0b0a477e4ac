"""The storage of shared variables on one backend; it lives as long as the variable."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from xbackend.devices import Device
from xbackend.program.shared import SharedVariable


class Cell:
    __slots__ = ("device", "value")

    def __init__(self, value: Any, device: Device) -> None:
        self.value, self.device = value, device


class Storages:
    """By the uid of a variable: ``made`` has the framework's storage and its device, ``given`` a value set before.
    Two objects may be one variable, as after reading a stored program; its storage lives as long as the last one."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[Any, Device]] = {}
        self.given: dict[str, np.ndarray] = {}
        self._holders: dict[str, dict[int, weakref.ref[SharedVariable]]] = {}

    def keep(self, variable: SharedVariable) -> None:
        """Keep the variable's storage until the variable is garbage-collected."""
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
        for each in (self.made, self.given, self._holders):
            each.clear()


def alone(lock: AbstractContextManager[Any], execute: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    """The callable under a lock, for programs with state: one at a time, so that no update is lost."""

    def locked(*values: Any) -> Sequence[Any]:
        with lock:
            return execute(*values)

    return locked
