"""The kinds of stored files, and reading one of any kind."""

from __future__ import annotations

from pathlib import Path

import msgspec

from xbackend.files import read_file, refused
from xbackend.results.clustered import Jobs
from xbackend.results.packing import unpacked
from xbackend.results.schema import Results, StoredFile, decode
from xbackend.results.trained import Trainings

KINDS: tuple[type[StoredFile], ...] = (Results, Trainings, Jobs)


class _Named(msgspec.Struct):
    format: str = ""


def read(path: Path) -> StoredFile:
    """The content of a file, of the kind that its ``format`` names. Raises as `schema.read`; a file of no kind is
    refused as one of a comparison."""
    with refused(f"results cannot be read from {path}"):
        data = read_file(path)
    try:
        named = msgspec.json.decode(unpacked(data, path), type=_Named).format
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # which decode says in full
        named = ""
    return decode(data, path, next((kind for kind in KINDS if kind.own("format") == named), Results))
