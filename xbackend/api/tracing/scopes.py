"""Scopes of the traced function, which place its ops on devices."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from xbackend.devices import Device, canonical


class _Entered(threading.local):
    """The tracers at work in this thread, and the open scopes of the innermost one, each with the innermost last."""

    def __init__(self) -> None:
        self.tracers: list[Any] = []
        self.scopes: list[str] = []
        self.renamings: list[Mapping[str, str]] = []


entered = _Entered()


def _meant(name: str) -> str:
    """The meaning of a name inside of `renamed` scopes: outer scopes rename the results of inner ones."""
    for names in reversed(entered.renamings):
        name = names.get(name, name)
    return name


def place(asked: str | None) -> str | None:
    """The device that a node asks for: its own, else the innermost scope's."""
    if asked is not None:
        return _meant(asked)
    return entered.scopes[-1] if entered.scopes else None


class device:
    """A scope whose ops run on this device (``gpu:1``) or logical device (``dev1``).

    Scopes nest, the innermost counts; one may be entered again. Raises `DeviceSpellingError` for other text.

    >>> def halves(x):
    ...     with xb.device("dev1"):
    ...         return x / 2.0
    >>> run = backend.compile(halves, np.ones(2), devices={"dev1": "cpu:1"})
    >>> run(np.ones(2))
    array([0.5, 0.5])
    >>> [str(device) for device in run.output_devices]
    ['cpu:1']
    """

    def __init__(self, name: str | Device) -> None:
        self.name = canonical(name)

    def __enter__(self) -> None:
        entered.scopes.append(_meant(self.name))

    def __exit__(self, *exception: object) -> None:
        entered.scopes.pop()


def on(name: str | Device | None) -> AbstractContextManager[None]:
    """The scope of a device; without a name no scope."""
    return nullcontext() if name is None else device(name)


class renamed:
    """A scope that renames the devices asked for inside, physical or logical: ``{"dev0": "dev2"}``.

    Other names stay. So do scopes of `device` entered outside.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = {canonical(name): canonical(other) for name, other in names.items()}

    def __enter__(self) -> None:
        entered.renamings.append(self.names)

    def __exit__(self, *exception: object) -> None:
        entered.renamings.pop()
