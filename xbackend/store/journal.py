"""The journal of a process: a line for each thing that happened, on disk before it counts.

Runs inside the worker, outside of the timed part, and needs the standard library only. A line is JSON:
``{"crc":"1c291ca3","record":{...}}``, the CRC-32 that of the record's bytes. A process that was cut off leaves at most
one torn line, the last; anything else that does not fit is damage.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

from xbackend.errors import DamagedStore, StoreError

_BEFORE = b'{"crc":"%08x","record":'
_LENGTH = len(_BEFORE % 0)


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
    try:
        # One write to a file opened for appending: lines of two writers do not mix.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"the journal {os.fspath(path)} cannot be written: {error.strerror or error}") from error


def read(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records of a journal, without a torn last line.

    Raises `DamagedStore`, which names the file and the line, where another line is; `StoreError` if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise StoreError(f"the journal {os.fspath(path)} cannot be read: {error.strerror or error}") from error
    # What follows the last line's end was being written when the process was cut off.
    lines = data.split(b"\n")[:-1]
    return [_record(path, number, line) for number, line in enumerate(lines, 1)]


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
