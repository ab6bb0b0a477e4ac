"""A folder of files put in the place of the one that was there, in one step: whoever reads it, and whatever ends the
writer, there is all of the one or all of the other.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from xbackend.files import MADE, held, hold, new_folder, refused, sync_folder, write_new

_ASIDE = "-old"
_PATIENCE = 30.0  # seconds that another writer may take
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)  # an old kernel, or a file system that does not know how
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD; RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS


def write_folder(folder: Path, files: Mapping[str, bytes], ours: Callable[[Path, str], bool]) -> None:
    """Write files into a folder, made if need be, in the place of those that were written there before.

    Args:
        folder: the folder; a symbolic link stays one.
        files: content by name.
        ours: whether the entry of that name in the folder that is there is left out. All others come along.

    Raises `StoreError` where that is not possible; then nothing has changed.
    """
    target = Path(os.path.realpath(folder))
    with refused(f"{folder} cannot be written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        while not _written(target, files, ours):
            continue


def _written(target: Path, files: Mapping[str, bytes], ours: Callable[[Path, str], bool]) -> bool:
    """Write a folder beside the one that is there, and put it in its place; `False` where meanwhile that one came or
    went, so that what it holds is not known. Raises `OSError`."""
    with ExitStack() as stack:
        there = _alone(target, stack)
        made = stack.enter_context(new_folder(target))  # in the end what was there before, or what did not become it
        if there:
            _bring(target, made, [name for name in os.listdir(target) if _replaced(target, name, files, ours)])
        for name, data in files.items():
            write_new(made / name, data)
        sync_folder(made)
        if not _put(made, target, there):
            return False
        sync_folder(target.parent)
        return True


def _alone(target: Path, stack: ExitStack) -> bool:
    """Whether there is a folder. No other writer brings from it or replaces it until the stack ends. Raises `OSError`:
    one that was stopped holds it for ever."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            if not target.is_dir():
                if not _restored(target) and not target.is_dir():
                    return False
                continue
            try:
                lock = hold(target, wait=False)
            except FileNotFoundError:
                continue  # another writer is between its two renames
            if lock is None:
                return target.is_dir()  # this system has no locks: two at once may lose what others put there
            if _same(lock, target):
                stack.callback(os.close, lock)
                return True
            os.close(lock)  # another writer replaced it since
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"another process writes it, for {_PATIENCE:g} s now") from None
            time.sleep(0.01)


def _same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _restored(target: Path) -> bool:
    """Whether what a killed writer had put aside has its name again. Raises `BlockingIOError` where it still writes."""
    for aside in target.parent.glob(f".{glob.escape(target.name)}{MADE}*{_ASIDE}"):
        if held(aside):
            raise BlockingIOError
        with suppress(FileNotFoundError):
            aside.rename(target)
            return True
    return False


def _replaced(target: Path, name: str, files: Mapping[str, bytes], ours: Callable[[Path, str], bool]) -> bool:
    """Whether what has that name goes. A folder in the place of a file is somebody's. Raises `IsADirectoryError`."""
    if name in files and (target / name).is_dir():
        raise IsADirectoryError(errno.EISDIR, f"{name} is a folder")
    return name in files or ours(target, name)


def _bring(source: Path, made: Path, left: list[str]) -> None:
    """The other files of a folder, without copying what they hold, and its permissions."""
    shutil.copytree(
        source, made, symlinks=True, dirs_exist_ok=True, copy_function=_link,
        ignore=lambda at, _: left if Path(at) == source else [],
    )  # fmt: skip


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target, follow_symlinks=False)


def _put(made: Path, target: Path, there: bool) -> bool:
    """Give a folder its name, in exchange for the one that was there; `False` where meanwhile one came or went.

    Raises `OSError`."""
    try:
        if there:
            _exchange(made, target)
        else:
            made.rename(target)
    except OSError:
        if target.is_dir() is there:
            raise
        return False
    return True


def _exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders, in one step where the system can. Raises `OSError`."""
    if _swap(one, other):
        return
    # In two steps: a writer that ends in between leaves none of the two under the name, and the next one restores it.
    aside = one.with_name(f"{one.name}{_ASIDE}")
    other.rename(aside)
    try:
        one.rename(other)
    except OSError:
        aside.rename(other)
        raise
    aside.rename(one)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two names in one step; whether the system can. Raises `OSError`."""
    system = {"linux": "renameat2", "darwin": "renamex_np"}.get(sys.platform, "")
    function = getattr(ctypes.CDLL(None, use_errno=True), system, None) if system else None
    if function is None:
        return False
    here = (_HERE,) if sys.platform == "linux" else ()
    arguments = [part for path in (one, other) for part in (*here, os.fsencode(path))]
    if function(*arguments, _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))
