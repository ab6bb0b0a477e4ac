"""A cache of compiled code on disk that one process has for itself: empty, or filled with what another one left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path


class OwnCache:
    """The framework's cache in ``folder``, of this process alone.

    ``stays`` are the names of what is no program of the user's: the framework's own extensions, its locks. After the
    files have changed, ``forget`` lets the framework look for them again.
    """

    def __init__(self, folder: Path, stays: Collection[str] = (), forget: Callable[[], None] = lambda: None) -> None:
        self.folder, self._stays, self._forget = folder, frozenset(stays), forget

    def begin(self, kept: Path | None = None) -> None:
        """Hold nothing but what is in ``kept``; without it, nothing."""
        for path in self._programs():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if kept is not None:
            shutil.copytree(kept, self.folder, dirs_exist_ok=True)
        self._forget()

    def keep(self, kept: Path) -> None:
        """Copy what was compiled since `begin` to the folder ``kept``, whole or not at all; nothing where there is
        nothing."""
        part = kept.with_name(f"{kept.name}.{os.getpid()}")
        for path in self._programs():
            target = part / path.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(path, target) if path.is_dir() else shutil.copy2(path, target)
        if part.exists():
            part.rename(kept)

    def _programs(self) -> list[Path]:
        """What the framework compiled for programs: it has a folder in its cache for each kind."""
        kinds = [kind for kind in self.folder.iterdir() if kind.is_dir()]
        return [path for kind in kinds for path in kind.iterdir() if path.name not in self._stays]
