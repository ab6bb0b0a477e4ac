"""Atomic writing of files and folders, the lock on a folder, who else can write to it, and safe reading of a store.

Reading neither hangs at a pipe nor fills the memory. The lock is flock's, on the folder itself: no lock file is left
behind, and the system releases it when the process ends. Without flock (some network file systems) nothing is locked.
Workers import this: it needs the standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import grp
import os
import pwd
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xbackend.errors import DamagedStore, StoreError

SHARED = "XBACKEND_SHARED_HOME"
MOST = 1 << 27  # bytes; the largest runs have some millions
MOST_OF_ARRAYS = 1 << 36  # bytes of a file of arrays
MADE = ".new-"  # in the name of a folder that is being filled, after the name of its target
_FORGOTTEN = 60.0  # seconds after which an unlocked folder counts as left behind by a killed writer


def check_place(folder: Path, what: str) -> None:
    """Raises `StoreError` (``what``, and why) unless the folder exists or can be made, and files can be put into it."""
    for place in (folder, *folder.absolute().parents):
        if os.path.lexists(place):
            with refused(what):
                if not os.path.isdir(place):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
                if not os.access(place, os.W_OK | os.X_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
            return


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Raise an `OSError` or a `ValueError` of the body as a `StoreError`: ``what``, and why."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: no path can have a null character
        raise StoreError(f"{what}: {getattr(error, 'strerror', None) or error}") from error


def there(path: Path) -> bool:
    """Whether a path exists, broken symbolic links included. Raises `OSError`."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read_file(path: str | os.PathLike[str], most: int = MOST) -> bytes:
    """The content of a file of at most ``most`` bytes.

    Raises:
        DamagedStore: it is larger, or no regular file (a pipe, a device).
        OSError: it cannot be read.
    """
    _check(path, os.stat(path), most)  # before opening it: to open a device may act on it
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _check(path, status, most)  # the path may name another file by now
        data: bytes | None = file.read(min(most, max(MOST, status.st_size)) + 1)  # read() allocates all at once
    if data is None:  # reading would block
        raise _no_file(path)
    if len(data) > most:
        raise _too_large(path, most)
    return data


def write_whole(path: Path, data: bytes, replace: bool = True) -> None:
    """Write a file whole or not at all, make its folder if need be, and wait until it is on disk.

    Raises `OSError`; without ``replace`` `FileExistsError` where the file exists.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whatever the umask is, others cannot write to it.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if replace:
            temporary.replace(path)
        else:
            os.link(temporary, path)  # a rename would replace an existing file
    finally:
        with suppress(OSError):  # the folder may be a file, or the disk gone
            temporary.unlink(missing_ok=True)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A locked folder beside ``target``, to fill and to rename; it is deleted at the end if it is still there.

    Folders that killed writers of ``target`` left behind are deleted first. Raises `OSError`.
    """
    for left in target.parent.glob(f".{glob.escape(target.name)}{MADE}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _FORGOTTEN and not held(left):
                shutil.rmtree(left)
    made = being_made(target)
    made.mkdir(mode=0o755)
    lock = hold(made)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A path beside ``target`` for a file or a folder, which is renamed to ``target`` at the end of the body. If the
    body raises or the process is killed, ``target`` is as before.

    Raises `OSError`.
    """
    with new_folder(target) as folder:
        made = folder / target.name
        yield made
        made.replace(target)


def make_own(path: Path) -> None:
    """Make a directory and its parents. Whatever the umask is, others cannot write to them."""
    for one in [*reversed(path.parents), path]:
        if not one.is_dir():
            one.mkdir(mode=0o755, exist_ok=True)


def shared() -> bool:
    """Whether the user allows others to write to xbackend's home ($XBACKEND_SHARED_HOME)."""
    return os.environ.get(SHARED, "") not in ("", "0")


def writers(path: Path) -> str:
    """Who else can write to a directory or file, in words; empty where nobody can, or it is not known."""
    try:
        status = path.stat()
    except OSError:  # a missing path; anything else will be an error when it is used
        return ""
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to {_user(status.st_uid)}"
    if status.st_mode & stat.S_IWOTH:
        return "everybody can write to it"
    if status.st_mode & stat.S_IWGRP and not _own_group(status.st_gid):
        return f"the group {_group(status.st_gid)} can write to it"
    return ""


def open_to_others(path: Path) -> str:
    """Why the code in a directory may be another user's: others can write to the directory or replace it, and
    $XBACKEND_SHARED_HOME does not allow that. Empty where they cannot."""
    real = Path(os.path.realpath(path))
    for one in () if shared() else (real, *real.parents):
        who = writers(one)
        # A sticky folder, as /tmp: others can write to it, and rename only their own files.
        sticky = who and one.stat().st_mode & stat.S_ISVTX and one.stat().st_uid in (0, os.geteuid())
        if who and (one == real or not sticky):
            return (
                f"{one} is open to others: {who}, and what is kept in {path} is run. Type `chmod go-w {one}` if it is "
                "yours, or set XBACKEND_HOME to a directory of your own; if you trust all who can write there, set "
                f"{SHARED}=1"
            )
    return ""


def _own_group(number: int) -> bool:
    """Whether a group is the user's private group, which has the user's name (Debian and Fedora)."""
    try:
        group = grp.getgrgid(number)
    except KeyError:
        return False
    name = _user(os.geteuid())
    return group.gr_name == name and set(group.gr_mem) <= {name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def being_made(target: Path) -> Path:
    """A fresh name beside ``target``, for a folder before it becomes ``target`` or after that."""
    return target.with_name(f".{target.name}{MADE}{secrets.token_hex(4)}")


def hold(folder: Path, wait: bool = True) -> int | None:
    """Lock a folder. Closing the returned file descriptor releases it; `None` where there are no locks.

    On a folder that this process just made, only `held` in another process can delay it, for a moment. Raises
    `FileNotFoundError`; without ``wait`` `BlockingIOError` where another process has the lock.
    """
    return _locked(folder, alone=True, wait=wait)


def held(folder: Path) -> bool:
    """Whether a process, this one or another, holds the folder."""
    try:
        descriptor = _locked(folder, alone=False, wait=False)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    if descriptor is not None:
        os.close(descriptor)
    return False


def _locked(folder: Path, alone: bool, wait: bool) -> int | None:
    """A descriptor with the exclusive (``alone``) or a shared lock; `None` where there are no locks."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # a pipe would wait for a writer
    except FileNotFoundError:
        raise
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError) and not isinstance(error, BlockingIOError):  # some network file systems
            return None
        raise
    return descriptor


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in as many system calls as that needs."""
    rest = memoryview(data)
    while rest:
        written = os.write(descriptor, rest)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = rest[written:]


def _check(path: str | os.PathLike[str], status: os.stat_result, most: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        raise _no_file(path)
    if status.st_size > most:
        raise _too_large(path, most)


def _no_file(path: str | os.PathLike[str]) -> DamagedStore:
    return DamagedStore(f"{os.fspath(path)} is damaged: it is no file, but a pipe, a socket or a device; remove it")


def _too_large(path: str | os.PathLike[str], most: int) -> DamagedStore:
    return DamagedStore(f"{os.fspath(path)} is damaged: it has more than {most >> 20} MiB, which no file here has")
