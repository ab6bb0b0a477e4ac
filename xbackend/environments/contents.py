"""The contents of an environment: its packages against the lock, and its files against the packages' lists.

A package's list, ``RECORD``, has the size and the SHA-256 of its files. Compiled files (``.pyc``) are made here: they
are in no list, or the list has the file that they replaced.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import os
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import packaging
from packaging.utils import canonicalize_name

from xbackend.environments import interpreters, recipes
from xbackend.environments.installer import HEARTBEAT, Progress, silent
from xbackend.errors import EnvironmentFailed

# Packaging is pure Python: the interpreter borrows ours, behind its own library.
_FACTS = (
    f"import json, sys; sys.path.append({str(Path(packaging.__file__).parents[1])!r})\n"
    "from packaging.markers import default_environment\n"
    "print(json.dumps(default_environment()))\n"
)


@dataclass(frozen=True)
class Damage:
    """A package that has changed since its installation, and how."""

    package: str
    problem: str

    def __str__(self) -> str:
        return f"{self.package}: {self.problem}"


@dataclass(frozen=True)
class _File:
    """A line of a package's list: ``digest`` is as in ``sha256=...``."""

    package: str
    name: str
    path: Path
    size: int
    digest: str


def facts(python: Path) -> dict[str, str]:
    """An interpreter's values for the markers of requirements.

    Raises:
        EnvironmentFailed: it does not run.
    """
    try:
        return dict(interpreters.ask(python, _FACTS))
    except subprocess.CalledProcessError as error:
        why = f"exit code {error.returncode}: {(error.stderr or error.stdout).decode(errors='replace').strip()[-200:]}"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        why = str(error)
    raise EnvironmentFailed(f"{python} does not run ({why})")


def packages_in(path: Path) -> dict[str, str]:
    """Names and versions of the packages installed in `path`. A damaged package has an empty version."""
    return dict(sorted((_name(d), str(d.metadata["Version"] or "")) for d in _distributions(path)))


def records_in(path: Path) -> dict[str, str]:
    """The SHA-256 of every package's list of files."""
    return {_name(d): hashlib.sha256(_record(d) or b"").hexdigest() for d in _distributions(path)}


def unlocked(installed: Mapping[str, str], lock: str, facts: Mapping[str, str]) -> list[str]:
    """One line for each difference between the installed packages and those locked for an interpreter."""
    wanted = recipes.locked(lock, facts)
    present: dict[str, str] = {canonicalize_name(name): version for name, version in installed.items()}
    return [
        f"{name}: {present.get(name, 'nothing')} is installed, {wanted.get(name, 'nothing')} is locked"
        for name in sorted({*wanted, *present})
        if present.get(name) != wanted.get(name)
    ]


def damage(path: Path, hashes: bool, records: Mapping[str, str], say: Progress = silent) -> list[Damage]:
    """The missing and changed files of all packages of the environment in `path`.

    Args:
        path: of the environment.
        hashes: read the contents too, some gigabytes; else sizes only, in a fraction of a second.
        records: the result of `records_in` when the environment was complete, if known.
        say: called with one line of text every two seconds.
    """
    damaged: list[Damage] = []
    listed: list[_File] = []
    for distribution in _distributions(path):
        name, record = _name(distribution), _record(distribution)
        digest = hashlib.sha256(record or b"").hexdigest()
        if record is None or records.get(name, digest) != digest:
            damaged.append(Damage(name, "its list of files is missing or damaged"))
            continue
        try:
            listed += _listed(name, record, Path(str(distribution.locate_file(""))))
        except (ValueError, csv.Error) as error:
            damaged.append(Damage(name, f"its list of files is damaged: {error}"))
    last = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # Reading and hashing release Python's lock. A look at a size takes less time than starting a thread.
        problems = (pool.map if hashes else map)(partial(_problem, hashes), listed)
        for number, (file, problem) in enumerate(zip(listed, problems, strict=True)):
            if problem:
                damaged.append(Damage(file.package, f"{file.name} {problem}"))
            if time.monotonic() - last >= HEARTBEAT:
                last = time.monotonic()
                say(f"compared {number + 1} of {len(listed)} files")
    return damaged


def _distributions(path: Path) -> list[importlib.metadata.Distribution]:
    sites = map(str, path.glob("lib/python*/site-packages"))
    return list(importlib.metadata.distributions(path=[*sites]))


def _name(distribution: importlib.metadata.Distribution) -> str:
    """The name of a distribution; that of its folder if its metadata are damaged."""
    folder = Path(str(distribution._path)).name  # type: ignore[attr-defined]  # the public ways read the damaged file
    return str(distribution.metadata["Name"] or folder).lower().replace("_", "-")


def _record(distribution: importlib.metadata.Distribution) -> bytes | None:
    try:
        return (Path(str(distribution._path)) / "RECORD").read_bytes()  # type: ignore[attr-defined]
    except OSError:
        return None


def _listed(package: str, record: bytes, root: Path) -> Iterator[_File]:
    """The files in a list. Raises `ValueError`, `csv.Error`."""
    for row in csv.reader(record.decode().splitlines()):
        # Compiled files are ours: they replace those in wheels (NumPy 1.26).
        if len(row) == 3 and row[2] and not row[0].endswith(".pyc"):
            yield _File(package, row[0], root / row[0], int(row[2]), row[1])


def _problem(hashes: bool, file: _File) -> str:
    """The damage of a file; empty if there is none."""
    try:
        status = file.path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "is no file"
        if status.st_size != file.size:
            return f"has {status.st_size} bytes in place of {file.size}"
        algorithm, _, wanted = file.digest.partition("=")
        if hashes and algorithm in hashlib.algorithms_guaranteed:
            with file.path.open("rb") as stream:
                computed = hashlib.file_digest(stream, algorithm).digest()
            if base64.urlsafe_b64encode(computed).rstrip(b"=").decode() != wanted:
                return "has other contents than were installed"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""
