"""Files of a store, opened so that nothing that lies there can hang or fill a process, and written whole.

Workers import it: it needs the standard library only.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from xbackend.errors import DamagedStore

MOST = 1 << 27  # bytes; the largest runs have some millions
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def there(path: Path) -> bool:
    """Whether a folder has an entry of that name, also one that leads nowhere. Raises `OSError`."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The content of a file.

    Raises:
        DamagedStore: it is something else, such as a pipe or a device, or of a size that no file of a store has.
        OSError: it cannot be read.
    """
    _check(path, os.stat(path))  # opening a device may do something
    descriptor = os.open(path, _READ | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        _check(path, os.fstat(descriptor))  # it may be another one by now
        data: bytes | None = file.read(MOST + 1)
    if data is None:  # it would have been waited for
        raise _no_file(path)
    if len(data) > MOST:
        raise _too_large(path)
    return data


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, its folder made if need be, and wait until it is on disk. Raises `OSError`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(temporary, data)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # the folder may be a file, or the disk gone
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, and wait until it is on disk. Raises `OSError`."""
    descriptor = os.open(path, _NEW, 0o666)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however little the system takes at once. Raises `OSError`."""
    rest = memoryview(data)
    while rest:
        written = os.write(descriptor, rest)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = rest[written:]


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on disk, where the system can open folders. Raises `OSError`."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check(path: str | os.PathLike[str], found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(found.st_mode):
        raise _no_file(path)
    if found.st_size > MOST:
        raise _too_large(path)


def _no_file(path: str | os.PathLike[str]) -> DamagedStore:
    return DamagedStore(f"{os.fspath(path)} is damaged: it is no file, but a pipe, a socket or a device; remove it")


def _too_large(path: str | os.PathLike[str]) -> DamagedStore:
    return DamagedStore(f"{os.fspath(path)} is damaged: it has more than {MOST >> 20} MiB, which no file here has")
