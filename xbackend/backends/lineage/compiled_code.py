"""The frameworks' cache of compiled code: its folder, and several processes that fill it at once."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from xbackend.backends.own_cache import OwnCache
from xbackend.errors import BackendUnavailable
from xbackend.files import make_own, open_to_others

CACHED = "compiled code that two processes put into the cache at once"  # in `Backend.added`

# The frameworks' own extensions, compiled at the first import, and other names in the cache that are no programs.
_EXTENSIONS = ("cutils_ext", "lazylinker_ext", "scan_perform")
_STAYS = (*_EXTENSIONS, "__init__.py", ".lock", "lock_dir")


def folder(backend: str, name: str) -> Path:
    """The folder ``name`` for a backend's compiled code, made if need be: below $XBACKEND_HOME, or in the user's cache
    directory. Raises `BackendUnavailable` if others can write to it, or if it cannot be made."""
    home = os.environ.get("XBACKEND_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "xbackend"
    )
    path = Path(home).expanduser().absolute() / "compiled" / name
    if said := open_to_others(path):
        raise BackendUnavailable(f"backend {backend} keeps what it compiles: {said}")
    try:
        make_own(path)
    except OSError as error:
        raise BackendUnavailable(
            f"backend {backend} keeps what it compiles in {path}, which cannot be made: {error.strerror}; set "
            "XBACKEND_HOME to a directory that can be written"
        ) from error
    return path


def own_cache(shared: Path, forget: Callable[[], None]) -> OwnCache:
    """An empty cache in the process's folder for temporary files, with the ``shared`` one's extensions of the
    framework."""
    own = Path(tempfile.mkdtemp(prefix="compiled-"))
    share_extensions(shared, own)
    return OwnCache(own, _STAYS, forget)


def share_extensions(have: Path, lack: Path) -> None:
    """Copy the framework's own extensions to a cache that lacks them, each whole or not at all."""
    for path in (path for name in _EXTENSIONS for path in have.glob(f"*/{name}")):
        target = lack / path.relative_to(have)
        if not target.exists():
            part = target.with_name(f"{target.name}.{os.getpid()}")
            shutil.copytree(path, part)
            try:
                part.rename(target)
            except OSError:  # another process was first
                shutil.rmtree(part)


def share_cache(cmodule: ModuleType) -> None:
    """Let several processes fill the cache at once (theano/gof/cmodule.py, link/c/cmodule.py). Where another one stored
    a module under the same key, `KeyData.add_key` failed. Files of keys are written whole, as a starting process reads
    them without the lock and deletes the module of a truncated one."""
    data = cmodule.KeyData
    add, save = data.add_key, data.save_pkl
    if getattr(add, "shared", False):
        return

    def add_key(self: Any, key: object, save_pkl: bool = True) -> None:
        if key not in self.keys:
            add(self, key, save_pkl)

    def save_whole(self: Any) -> None:
        try:
            keys = pickle.dumps(self, protocol=pickle.HIGHEST_PROTOCOL)
        except pickle.PicklingError:
            save(self)  # says so, and raises it
        else:
            new = f"{self.key_pkl}.{os.getpid()}"
            Path(new).write_bytes(keys)
            os.replace(new, self.key_pkl)

    add_key.shared = True  # type: ignore[attr-defined]
    data.add_key, data.save_pkl = add_key, save_whole
