"""The first code that runs in a worker. Its source is sent there (`execnet.Gateway.remote_exec`); it is not imported.

It makes packages importable by name, xbackend first of all, without putting the directory that they lie in on the
path: that may be the user's site-packages, whose NumPy must not come before the environment's own.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


class Exposed:
    """A finder of some top-level modules, given as name and file or package directory, and of nothing beside them."""

    def __init__(self, modules: dict[str, str]) -> None:
        self.modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        place = self.modules.get(name)
        if place is None:
            return None
        if os.path.isdir(place):
            initial = os.path.join(place, "__init__.py")
            return importlib.util.spec_from_file_location(name, initial, submodule_search_locations=[place])
        return importlib.util.spec_from_file_location(name, place)


def begin(channel: Any) -> None:
    """Wait for the configuration, then serve until the other side closes."""
    os.dup2(2, 1)  # what is printed must not be lost, nor come between the messages
    configuration = channel.receive()
    sys.meta_path.insert(0, Exposed(configuration["modules"]))
    from xbackend.workers.serving import serve

    serve(channel)


if __name__ == "__channelexec__":
    begin(channel)  # type: ignore[name-defined]  # noqa: F821  # execnet puts it there
