"""The first code in a worker: a script that `guard.py` starts. It is never imported.

It makes xbackend and other named packages importable, without putting their directory on the path: that may be the
user's site-packages, whose NumPy must not hide the environment's own.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from types import ModuleType

MESSAGES = 3  # the descriptor of messages to xbackend; printed text goes to 1 and 2, which the guard reads
READY = b"here"  # the first message


class Exposed:
    """A finder of the given top-level modules alone: name to file or package directory."""

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
    """Serve until the other side closes. Child processes and readers of standard input never touch the messages."""
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
