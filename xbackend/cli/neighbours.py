"""Modules beside the user's file: the user's own code imports them, at once or later; xbackend and libraries never do.

A folder on `sys.path` is everybody's: with a ``matplotlib.py`` in it, the drawing of a report would import that.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import xbackend

_PACKAGE = os.path.dirname(os.path.abspath(xbackend.__file__))
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))


class _Neighbours:
    """A finder of modules in the user's folders, for imports by code of these folders."""

    def __init__(self) -> None:
        self.folders: list[str] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or not self._is_the_users(_importer()):
            return None
        found = PathFinder.find_spec(name, self.folders)
        if found is None or is_taken(name):
            return None
        # A folder without __init__.py is a package where there is no other of its name, as on sys.path.
        return found if found.origin or _elsewhere(name) is None else None

    def _is_the_users(self, file: str) -> bool:
        """Whether a file lies in a folder of the user's, but in no environment in it, nor in xbackend."""
        return any(
            _below(file, folder)
            and not any(_below(file, other) and _below(other, folder) for other in (*sys.path, _PACKAGE))
            for folder in self.folders
        )


_neighbours = _Neighbours()


def is_taken(name: str) -> bool:
    """Whether a module of that name belongs to Python, xbackend or an installed requirement of xbackend."""
    return name in sys.stdlib_module_names or (_elsewhere(name) is not None and name in _required())


@contextmanager
def beside(*folders: Path) -> Iterator[None]:
    """From this block on, the user's code imports from these folders, and from those that it puts on `sys.path` in the
    block, which are taken off again."""
    if _neighbours not in sys.meta_path:
        sys.meta_path.insert(0, _neighbours)  # before an installed copy of what the user works on
    _neighbours.folders[:0] = map(str, folders)
    importlib.invalidate_caches()
    path = list(sys.path)
    try:
        yield
    finally:
        _neighbours.folders += [os.path.abspath(folder) for folder in sys.path if folder not in path]
        sys.path[:] = path


@contextmanager
def alone(folder: Path, root: Path) -> Iterator[Callable[[], dict[str, str]]]:
    """In the block, the user's code imports from a folder and its ``src`` first. The function that it gets tells the
    files of the modules that were imported in it, by name. At its end those from below ``root`` are forgotten, so that
    the same names can come from another one."""
    before, folders = set(sys.modules), list(_neighbours.folders)

    def imported() -> dict[str, str]:
        new = [(name, getattr(sys.modules[name], "__file__", None)) for name in list(sys.modules) if name not in before]
        return {name: file for name, file in new if file}

    try:
        with beside(folder, folder / "src"):
            yield imported
    finally:
        _neighbours.folders[:] = folders
        for name, file in imported().items():
            if Path(file).resolve().is_relative_to(root.resolve()):
                del sys.modules[name]


def folders() -> list[str]:
    """The folders that the user's code imports from."""
    return list(_neighbours.folders)


def _importer() -> str:
    """The file of the code that imports, or has the standard library import."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _is_pythons(frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_code.co_filename


def _is_pythons(file: str) -> bool:
    return file.startswith("<") or (_below(file, _LIBRARY) and "site-packages" not in file)


def _below(file: str, folder: str) -> bool:
    return file.startswith(folder.rstrip(os.sep) + os.sep)


def _elsewhere(name: str) -> ModuleSpec | None:
    """The spec of a module as all other code finds it."""
    finders = (finder for finder in sys.meta_path if finder is not _neighbours)
    return next((spec for finder in finders if (spec := finder.find_spec(name, None))), None)


@cache
def _required() -> frozenset[str]:
    """The names of the modules of xbackend, of its requirements with all extras, and of theirs."""
    of = metadata.packages_distributions()
    left, seen = ["xbackend"], set[str]()
    while left:
        package = left.pop()
        seen.add(package)
        try:
            requirements = metadata.requires(package) or []
        except metadata.PackageNotFoundError:  # of an extra, and not installed
            continue
        wanted = [one for one in requirements if package == "xbackend" or "extra ==" not in one]
        left += {_plain(re.split(r"[^\w.-]", one, maxsplit=1)[0]) for one in wanted} - seen
    return frozenset(name for name, packages in of.items() if {_plain(one) for one in packages} & seen) | {"xbackend"}


def _plain(package: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", package).lower()
