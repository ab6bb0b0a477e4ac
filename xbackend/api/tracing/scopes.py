"""Scopes of the traced function: on which device what it does is to run."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from xbackend.devices import Device, canonical


class _Entered(threading.local):
    """What this thread is inside of, the innermost last."""

    def __init__(self) -> None:
        self.scopes: list[str] = []
        self.renamings: list[Mapping[str, str]] = []


_entered = _Entered()


@contextmanager
def no_scopes() -> Iterator[None]:
    """Another function is traced: the scopes that it is called in are not its own."""
    outside = _entered.scopes, _entered.renamings
    _entered.scopes, _entered.renamings = [], []
    try:
        yield
    finally:
        _entered.scopes, _entered.renamings = outside


def _meant(name: str) -> str:
    """The device or logical name that a written one stands for inside of the scopes of `renamed`.

    The innermost scope comes first, so that what it names is renamed by those around it.
    """
    for names in reversed(_entered.renamings):
        name = names.get(name, name)
    return name


def place(asked: str | None) -> str | None:
    """What a node asks for: what is written for it, else what the innermost scope says."""
    if asked is not None:
        return _meant(asked)
    return _entered.scopes[-1] if _entered.scopes else None


class device:
    """Ops made inside of the scope are to run on this device (``gpu:1``) or logical device (``dev1``).

    Scopes nest, the innermost counts; one may be entered again. Raises `DeviceSpellingError` for text that is neither.
    """

    def __init__(self, name: str | Device) -> None:
        self.name = canonical(name)

    def __enter__(self) -> None:
        _entered.scopes.append(_meant(self.name))

    def __exit__(self, *exception: object) -> None:
        _entered.scopes.pop()


class renamed:
    """Devices asked for inside of the scope, by their own or by logical names, are others: ``{"dev0": "dev2"}``.

    Names that are not in the mapping stay as they are. Scopes of `device` entered outside stay, too.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = {canonical(name): canonical(other) for name, other in names.items()}

    def __enter__(self) -> None:
        _entered.renamings.append(self.names)

    def __exit__(self, *exception: object) -> None:
        _entered.renamings.pop()
