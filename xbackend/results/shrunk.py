"""The outcome of making a program that differs as small as possible."""

from __future__ import annotations

import msgspec


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """A program that differs on a backend. ``reason``: why there is no script. ``path``: the script, in the words of
    ``language``. ``finished``: whether nothing smaller was left to try in the time."""

    backend: str
    reason: str = ""
    path: str = ""
    language: str = ""
    ops: int = 0
    ops_before: int = 0
    numbers: int = 0  # of all arguments
    numbers_before: int = 0
    tried: int = 0  # programs
    ended: int = 0  # of them ended the backend's process, or took too long
    finished: bool = True
    notes: list[str] = []  # what is to be known of the script
