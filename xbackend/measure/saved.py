"""pytest-benchmark's saved runs: written whole, and checked before anything is compared with them.

pytest-benchmark alone takes an older run where the newest is damaged, saves a run cut off as if it were complete, and
compares the numbers of different machines. Files written here stay readable by ``pytest-benchmark compare``: our
entries are under the key ``xbackend``, which it does not read. A damaged file is not renamed, because pytest-benchmark
would give its number to the next one and compare with its predecessor: it is named each time until somebody removes it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pytest_benchmark.storage.file import FileStorage
from pytest_benchmark.utils import safe_dumps

from xbackend.errors import DamagedStore, StoreError
from xbackend.files import read_file, refused, write_whole

KEY = "xbackend"
_Time = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class _Stats(msgspec.Struct, frozen=True):
    min: _Time
    max: _Time
    mean: _Time
    median: _Time


class _Benchmark(msgspec.Struct, frozen=True):
    fullname: str
    name: str
    stats: _Stats


class _Ours(msgspec.Struct, frozen=True):
    complete: bool = True
    checksum: str = ""


class _Saved(msgspec.Struct, frozen=True):
    benchmarks: list[_Benchmark]
    machine_info: dict[str, Any]
    xbackend: _Ours = _Ours()


class Incomplete(StoreError):
    """A saved run that was cut off, or of which a test failed."""


class WholeStorage(FileStorage):  # type: ignore[misc]
    """pytest-benchmark's storage, with atomic writes that replace no file."""

    @property
    def location(self) -> str:
        """Where it is. pytest-benchmark 5.3.1 raises an error of its own where that is not below the directory."""
        return str(self.path)

    def save(self, output_json: dict[str, Any], save: str) -> None:
        """Write a run under the next number; another number where somebody else takes it now."""
        data = safe_dumps(output_json, ensure_ascii=True, indent=4).encode()
        for number in itertools.count(int(self._next_num)):
            path = self.get(f"{number:04}_{save}.json")
            if not any(path.parent.glob(f"{number:04}_*.json")) and _write(path, data):
                self.logger.info(f"Saved benchmark data in: {path}")
                return


def _write(path: Path, data: bytes) -> bool:
    """Write a new file atomically; returns `False` where it is there already. Raises `StoreError`."""
    with refused(f"the benchmarks cannot be saved in {path}"):
        try:
            write_whole(path, data, replace=False)
        except FileExistsError:
            if not path.exists():  # a folder of its path is a file
                raise
            return False
    return True


def seal(output: dict[str, Any], complete: bool) -> None:
    """Add to a run, before it is saved, whether it is complete, and the checksum of its content."""
    output[KEY] = {"complete": complete}
    output[KEY]["checksum"] = _checksum(json.loads(safe_dumps(output)))


def _checksum(content: Mapping[str, Any]) -> str:
    ours = {key: value for key, value in content[KEY].items() if key != "checksum"}
    text = json.dumps({**content, KEY: ours}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check(path: Path) -> dict[str, Any]:
    """A saved run that may be compared with.

    Raises:
        StoreError: it cannot be read.
        DamagedStore: it is not what was saved, or no saved run.
        Incomplete: it was cut off.
    """
    with refused(f"the saved run {path} cannot be read"):
        data = read_file(path)
    try:
        content = msgspec.json.decode(data)
        saved = msgspec.convert(content, _Saved)
        if KEY in content and saved.xbackend.checksum != _checksum(content):
            raise DamagedStore(f"the saved run {path} is damaged: it is not what its checksum says; {_WHAT}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedStore(f"the saved run {path} is damaged: {error}; {_WHAT}") from error
    if not saved.xbackend.complete:
        raise Incomplete(
            f"the saved run {path} is not complete: it was cut off, or a test of it failed; remove it, and save a "
            "whole one with --benchmark-autosave, without what cannot run here"
        )
    return dict(content)


_WHAT = "restore it, or remove it and save another one with --benchmark-autosave"


def compared(storage: FileStorage, chosen: str | bool) -> list[Path]:
    """The files that pytest-benchmark is going to compare with: all that match, or the newest."""
    with suppress(ValueError):  # pytest-benchmark says itself what is wrong with the pattern
        if chosen is True:
            return list(storage.query("[0-9][0-9][0-9][0-9]_"))[-1:]
        return list(storage.query(chosen))
    return []


def fingerprint(machine_info: Mapping[str, Any]) -> str:
    """The fingerprint of `xbackend.measure.machine` in pytest-benchmark's description of a machine; empty without."""
    ours = machine_info.get(KEY)
    noted = ours.get("fingerprint") if isinstance(ours, Mapping) else None
    return noted if isinstance(noted, str) else ""
