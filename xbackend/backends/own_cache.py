"""A process's own cache of compiled code on disk, empty or filled from another process's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

_THREADS = "NUMBA_NUM_THREADS"


def settings() -> dict[str, str]:
    """Numba's settings in the environment. Its cache has no key for them: it also finds code compiled with others."""
    return {name: os.environ[name] for name in sorted(os.environ) if name.startswith("NUMBA_") and name != _THREADS}


class OwnCache:
    """The framework's cache in ``folder``, used by this process alone. ``stays`` names files that are no programs;
    ``forget`` makes the framework read the folder again."""

    def __init__(self, folder: Path, stays: Collection[str] = (), forget: Callable[[], None] = lambda: None) -> None:
        self.folder, self._stays, self._forget = folder, frozenset(stays), forget

    def begin(self, kept: Path | None = None) -> None:
        """Replace the compiled programs by the programs in ``kept``; without ``kept`` delete them."""
        for path in self._programs():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if kept is not None:
            shutil.copytree(kept, self.folder, dirs_exist_ok=True)
        self._forget()

    def keep(self, kept: Path) -> None:
        """Copy the compiled programs to a new folder ``kept``, whole or not at all; without programs make none."""
        part = kept.with_name(f"{kept.name}.{os.getpid()}")
        for path in self._programs():
            target = part / path.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(path, target) if path.is_dir() else shutil.copy2(path, target)
        if part.exists():
            part.rename(kept)

    def _programs(self) -> list[Path]:
        """The compiled programs. The framework's cache has a folder for each kind."""
        kinds = [kind for kind in self.folder.iterdir() if kind.is_dir()]
        return [path for kind in kinds for path in kind.iterdir() if path.name not in self._stays]
