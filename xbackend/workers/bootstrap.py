"""The first code that runs in a worker, as a script that `guard.py` starts; it is not imported.

It makes packages importable by name, xbackend first of all, without putting the directory that they lie in on the
path: that may be the user's site-packages, whose NumPy must not come before the environment's own.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from types import ModuleType

MESSAGES = 3  # the descriptor for what goes to xbackend; what is printed goes to 1 and 2, which the guard reads
READY = b"here"  # what goes there first


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


def main(modules: str) -> None:
    """Serve until the other side closes. What is started or read here gets nothing of the messages."""
    requests = os.dup(0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.set_inheritable(MESSAGES, False)
    os.write(MESSAGES, READY)
    sys.meta_path.insert(0, Exposed(json.loads(modules)))
    from xbackend.workers.serving import serve

    serve(requests, MESSAGES)


if __name__ == "__main__":
    main(sys.argv[1])
