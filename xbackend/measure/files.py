"""The files that workers read: the arrays of cases, each written once, and the code that earlier workers compiled."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xbackend import environments
from xbackend.backends import own_cache, registry
from xbackend.environments.folders import compiled
from xbackend.files import make_own, refused
from xbackend.measure.candidates import Candidate, Case, Group

LASTING = 200  # programs whose compiled code is kept for later sessions: those used last


class Files:
    """A temporary folder of .npy files and of compiled code, gone at the end of the block.

    Where ``lasting``, the code that the locked environments compile stays for later sessions.
    """

    def __init__(self, lasting: bool = False) -> None:
        self._lasting = lasting

    def __enter__(self) -> Files:
        self._folder = tempfile.TemporaryDirectory(prefix="xbackend-arrays-", ignore_cleanup_errors=True)
        self._written: dict[Case, dict[str, list[str]]] = {}
        self._kept: dict[tuple[Case, Group], str] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()
        if self._lasting:
            for old in sorted(compiled().glob("*/*"), key=_used)[:-LASTING]:
                shutil.rmtree(old, ignore_errors=True)  # another session may delete it, too

    def of(self, case: Case) -> dict[str, list[str]]:
        """The paths of a case's ``inputs`` and of its ``expected`` results. Raises `StoreError`."""
        if case not in self._written:
            number = len(self._written)
            self._written[case] = {
                "inputs": self._write(f"{number}-input", case.inputs),
                "expected": self._write(f"{number}-expected", case.expected),
            }
        return self._written[case]

    def kept(self, candidate: Candidate) -> str:
        """The folder of compiled code that a candidate's first process writes and its later ones read."""
        which = candidate.case, candidate.group
        if self._lasting and not candidate.environment and which not in self._kept and (path := _lasting(candidate)):
            self._kept[which] = str(path)
        return self._kept.setdefault(which, str(Path(self._folder.name) / f"compiled-{len(self._kept)}"))

    def _write(self, name: str, arrays: Sequence[np.ndarray]) -> list[str]:
        paths = [Path(self._folder.name) / f"{name}-{i}.npy" for i in range(len(arrays))]
        for path, array in zip(paths, arrays, strict=True):
            with refused(f"the arrays to measure with cannot be written to {path}"):
                np.save(path, array, allow_pickle=False)
        return [*map(str, paths)]


def _lasting(candidate: Candidate) -> Path | None:
    """The folder of this program's compiled code for all sessions; `None` where it cannot be made."""
    environment = environments.get(registry.get(candidate.backend).environment)
    versions = sorted(environment.versions().items())
    which = [candidate.backend, candidate.devices, versions, own_cache.settings(), candidate.case.text]
    path = compiled() / environment.name / hashlib.sha256(repr(which).encode()).hexdigest()[:32]
    try:
        make_own(path.parent)
    except OSError:
        return None
    if path.exists():
        os.utime(path)  # those used last stay
    return path


def _used(path: Path) -> float:
    """When a program was used last; 0 where it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
