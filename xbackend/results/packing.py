"""The data file beside a report: JSON, packed by gzip, a tenth as large."""

from __future__ import annotations

import zlib
from gzip import GzipFile
from io import BytesIO
from pathlib import Path

from xbackend.errors import DamagedStore
from xbackend.files import MOST

SUFFIX = ".json.gz"
_MAGIC = b"\x1f\x8b"


def packed(data: bytes) -> bytes:
    """The packed data, without a time or a name in them: the same data give the same bytes."""
    file = BytesIO()
    with GzipFile("", "wb", 9, file, mtime=0) as stream:
        stream.write(data)
    return file.getvalue()


def unpacked(data: bytes, path: Path | str) -> bytes:
    """The unpacked data; data that was not packed stays as it is. Raises `DamagedStore` where it cannot be unpacked, or
    is larger than `MOST`; ``path`` is for the message."""
    if not data.startswith(_MAGIC):
        return data
    try:
        with GzipFile(fileobj=BytesIO(data)) as stream:
            whole = stream.read(MOST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedStore(f"{path} is damaged: {error}; restore it or measure again") from error
    if len(whole) > MOST:
        raise DamagedStore(f"{path} holds more than {MOST >> 20} MiB, as no file of xbackend does")
    return whole
