"""The journal of a process: a line for each thing that happened, on disk before it counts.

Runs inside the worker, outside of the timed part, and needs the standard library only. A line is JSON:
``{"crc":"1c291ca3","record":{...}}``, the CRC-32 that of the record's bytes. A process that was cut off, or a full
disk, leaves at most one torn line, the last, which the next one takes the place of; anything else that does not fit is
damage.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import stat
import zlib
from collections.abc import Mapping
from typing import Any

from xbackend.errors import DamagedStore, StoreError
from xbackend.files import lock, read_file, refused, write_all

_BEFORE = b'{"crc":"%08x","record":'
_LENGTH = len(_BEFORE % 0)
_BLOCK = 65536
# Without waiting for a reader, should it be a pipe.
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


def append(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Append a line and wait until it is on disk; the file is made if need be, its folder is there.

    Args:
        path: of the journal.
        record: what JSON can hold, without NaN and infinities.

    Raises:
        StoreError: it cannot be written, or the record is none.
    """
    try:
        text = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"a line of the journal {os.fspath(path)} cannot be made: {error}") from error
    line = _BEFORE % zlib.crc32(text) + text + b"}\n"
    with refused(f"the journal {os.fspath(path)} cannot be written"):
        descriptor = os.open(path, _APPEND, 0o644)
        try:
            lock(descriptor)  # keeps other writers away, where the system has such a lock
            _append(descriptor, line)
        finally:
            os.close(descriptor)


def _append(descriptor: int, line: bytes) -> None:
    """Write a line behind the last whole one. Without all of it there is nothing of it. Raises `OSError`."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        write_all(descriptor, line)  # a full device says so itself
        raise OSError(errno.EINVAL, "it is no file")
    end = _end(descriptor)
    os.ftruncate(descriptor, end)  # a line cut short, with another one behind it, would be damage
    try:
        write_all(descriptor, line)
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):  # then the next line does it
            os.ftruncate(descriptor, end)
        raise


def _end(descriptor: int) -> int:
    """Where the last whole line of a file ends."""
    start = os.fstat(descriptor).st_size
    while start:
        start, size = max(0, start - _BLOCK), min(start, _BLOCK)
        os.lseek(descriptor, start, os.SEEK_SET)
        newline = os.read(descriptor, size).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
    return 0


def read(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records of a journal, without a torn last line.

    Raises `DamagedStore`, which names the file and the line, where another line is; `StoreError` if it cannot be read.
    """
    with refused(f"the journal {os.fspath(path)} cannot be read"):
        data = read_file(path)
    # What follows the last line's end was being written when the process was cut off.
    lines = io.BytesIO(data[: data.rfind(b"\n") + 1])
    return [_record(path, number, line[:-1]) for number, line in enumerate(lines, 1)]


def _record(path: str | os.PathLike[str], number: int, line: bytes) -> dict[str, Any]:
    text = line[_LENGTH:-1]
    if line != _BEFORE % zlib.crc32(text) + text + b"}":
        raise DamagedStore(f"line {number} of the journal {os.fspath(path)} is damaged")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedStore(f"line {number} of the journal {os.fspath(path)} is damaged: {error}") from error
    if not isinstance(record, dict):
        raise DamagedStore(f"line {number} of the journal {os.fspath(path)} is damaged: it is no object")
    return record
