"""The file of a store, in SQLite: however a writer ends, committed data stays, and nothing else does.

SQLite notices pages that do not fit each other, but no changed content: so each row has a checksum of its own
(`schema.sealed`). A damaged file is renamed to ``<name>.damaged``, with its journal. The journal is SQLite's rollback
journal: beside a database in WAL mode a reader writes files, too.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from xbackend.errors import DamagedStore, StoreError, StoreVersionError
from xbackend.files import hold, refused, there, write_whole

VERSION = 1
_ID = 0x7862636B  # "xbck"
_TABLES = f"""
PRAGMA application_id = {_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE runs (run TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE candidates (run TEXT, place INTEGER, content BLOB NOT NULL, PRIMARY KEY (run, place));
CREATE TABLE processes (run TEXT, place INTEGER, content BLOB NOT NULL, PRIMARY KEY (run, place));
CREATE TABLE visits (run TEXT, place INTEGER, number INTEGER, content BLOB NOT NULL, PRIMARY KEY (run, place, number));
"""
_BESIDE = ("", "-journal", "-wal", "-shm")  # files that SQLite opens with a database
_PATIENCE = 30.0  # seconds that another writer may take
# A refusal of the system says nothing about the content of a file.
_REFUSED = {
    *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_AUTH),
}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def make(path: Path) -> None:
    """Make an empty store atomically, where there is none yet. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = hold(path.parent)  # two processes that find none make one
    try:
        if not there(path):
            with closing(_empty()) as new:
                write_whole(path, new.serialize())
    finally:
        if lock is not None:
            os.close(lock)


def _empty() -> sqlite3.Connection:
    new = sqlite3.connect(":memory:", isolation_level=None)
    new.executescript(_TABLES)
    return new


@contextmanager
def reading(path: Path, aside: bool = False) -> Iterator[sqlite3.Connection]:
    """A snapshot of a file; empty where there is no file. Not a byte of it changes.

    With ``aside`` a damaged file is renamed. Raises `StoreError`, `DamagedStore`, `StoreVersionError`.
    """
    if path.name not in _names(path.parent):
        with closing(_empty()) as nothing:
            yield nothing
        return
    with _transaction(path, "BEGIN", checked=True, aside=aside) as database:
        yield database


@contextmanager
def writing(path: Path, checked: bool = False) -> Iterator[sqlite3.Connection]:
    """A transaction: at its end all of it is on disk, or nothing.

    ``checked`` verifies the whole file first, and renames a damaged one. Raises as `reading`.
    """
    with _transaction(path, "BEGIN IMMEDIATE", checked, aside=True) as database:
        yield database
        database.execute("COMMIT")


@contextmanager
def _transaction(path: Path, begin: str, checked: bool, aside: bool) -> Iterator[sqlite3.Connection]:
    what = "read" if begin == "BEGIN" else "written"
    with ExitStack() as stack:
        number = -1
        try:
            with _told(path, what):
                number = os.lstat(path).st_ino
                _check_files(path)
                # Only a writer can roll back what a killed one had begun.
                mode = "ro" if what == "read" and not there(_beside(path, "-journal")) else "rw"
                uri = f"{path.absolute().as_uri()}?mode={mode}"
                database = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
                stack.enter_context(closing(database))
                # More than FULL: the end of the journal, which is the commit, is on disk too.
                database.execute("PRAGMA synchronous = EXTRA")
                database.execute(begin)
                if checked:
                    _check(database, path)
        except DamagedStore as error:
            stack.close()
            raise DamagedStore(f"{error}{_set_aside(path, number) if aside else ''}") from error
        with _told(path, what):
            yield database


def _check_files(path: Path) -> None:
    """Raises `DamagedStore` where SQLite would wait for a pipe or a device, and `OSError`."""
    beside = [one.lstat() for suffix in _BESIDE[1:] if there(one := _beside(path, suffix))]
    if not all(stat.S_ISREG(status.st_mode) for status in (path.stat(), *beside)) or not path.stat().st_size:
        raise DamagedStore(f"{path} is damaged: it, or what SQLite puts beside it, is no file or empty; remove it")


def _check(database: sqlite3.Connection, path: Path) -> None:
    """Raises `DamagedStore` and `StoreVersionError`."""
    (number,), (version,) = (database.execute(f"PRAGMA {of}").fetchone() for of in ("application_id", "user_version"))
    if number != _ID or version < 1:
        raise sqlite3.DatabaseError("it holds no runs of xbackend compare")
    if version > VERSION:
        raise StoreVersionError(f"{path} has version {version}, this xbackend reads up to {VERSION}: upgrade xbackend")
    # A page that could not be read once is a finding, too, but not the second time.
    for _ in range(2):
        (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
        if found == "ok":
            return
    raise sqlite3.DatabaseError(" ".join(found.split()))


@contextmanager
def _told(path: Path, what: str) -> Iterator[None]:
    """Turn refusals of SQLite and the system into `StoreError`, and damage into `DamagedStore`."""
    with refused(f"{path} cannot be {what}"):
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
            raise  # ours
        except (sqlite3.Error, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in _BUSY:
                why = f"another process writes it, for {_PATIENCE:g} s now"
                raise StoreError(f"{path} cannot be {what}: {why}") from error
            if code in _REFUSED:
                raise StoreError(f"{path} cannot be {what}: {error}") from error
            raise DamagedStore(f"{path} is damaged: {error}; put a copy of it in its place") from error


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _set_aside(path: Path, number: int) -> str:
    """Rename a damaged file, if it still has that inode; returns the words for it."""
    names = chain([f"{path.name}.damaged"], (f"{path.name}.damaged-{number}" for number in count(2)))
    with suppress(OSError):  # it is damaged all the same, and named
        aside = next(free for name in names if not there(free := path.with_name(name)))
        for suffix in reversed(_BESIDE if os.lstat(path).st_ino == number else ()):
            if there(_beside(path, suffix)):
                _beside(path, suffix).rename(_beside(aside, suffix))
        return f"; set aside as {aside.name}"
    return ""


def damaged(path: Path) -> list[str]:
    """The names of the files that were set aside. Raises `StoreError`."""
    there = [name for name in _names(path.parent) if name.startswith(f"{path.name}.damaged")]
    return sorted(name for name in there if not name.endswith(_BESIDE[1:]))


def _names(folder: Path) -> list[str]:
    with refused(f"the store {folder} cannot be read"):
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []
