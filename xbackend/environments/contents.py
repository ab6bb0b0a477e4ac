"""What is installed in an environment: its packages beside the lock, its files beside the lists that came with them.

A package's list, ``RECORD``, has the size and the SHA-256 of its files. Compiled files (``.pyc``) are made here: they
are in no list, or in the list with what they replaced.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import json
import os
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from xbackend.environments.installer import HEARTBEAT, Progress, silent
from xbackend.errors import EnvironmentFailed

# As in packaging.markers, of another interpreter.
_FACTS = (
    "import json, os, platform, sys\n"
    "v = sys.implementation.version\n"
    "print(json.dumps(dict(implementation_name=sys.implementation.name, os_name=os.name, sys_platform=sys.platform,\n"
    "implementation_version='%d.%d.%d' % tuple(v[:3]), platform_machine=platform.machine(),\n"
    "platform_release=platform.release(), platform_system=platform.system(), platform_version=platform.version(),\n"
    "python_full_version=platform.python_version(), python_version='.'.join(platform.python_version_tuple()[:2]),\n"
    "platform_python_implementation=platform.python_implementation())))\n"
)
_START = 60.0  # seconds that an interpreter may take to start


@dataclass(frozen=True)
class Damage:
    """A package with something that is not as it was installed, and what that is."""

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
    """What the markers of requirements ask of an interpreter, from itself.

    Raises:
        EnvironmentFailed: it does not run.
    """
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _FACTS], capture_output=True, text=True, timeout=_START, check=False, cwd="/"
        )
        if done.returncode == 0:
            return dict(json.loads(done.stdout))
        why = f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        why = str(error)
    raise EnvironmentFailed(f"{python} does not run ({why})")


def packages_in(path: Path) -> dict[str, str]:
    """Names and versions of the packages installed in the environment in `path`; of a damaged one an empty version."""
    found = ((_name(d), str(d.metadata["Version"] or "")) for d in _distributions(path))
    return dict(sorted(found))


def records_in(path: Path) -> dict[str, str]:
    """The SHA-256 of the list of files of every package."""
    return {_name(d): hashlib.sha256(_record(d) or b"").hexdigest() for d in _distributions(path)}


def unlocked(installed: Mapping[str, str], lock: str, facts: Mapping[str, str]) -> list[str]:
    """How the packages installed differ from those that a lock has for an interpreter: one line each."""
    wanted = {}
    for line in lock.splitlines():
        if line[:1].isalnum():
            requirement = Requirement(line.partition(" --hash")[0].rstrip(" \\"))
            if requirement.marker is None or requirement.marker.evaluate(dict(facts)):
                wanted[canonicalize_name(requirement.name)] = next(iter(requirement.specifier)).version
    found = {canonicalize_name(name): version for name, version in installed.items()}
    return [
        f"{name}: {found.get(name, 'nothing')} is installed, {wanted.get(name, 'nothing')} is locked"
        for name in sorted({*wanted, *found})
        if found.get(name) != wanted.get(name)
    ]


def damage(path: Path, hashes: bool, records: Mapping[str, str], say: Progress = silent) -> list[Damage]:
    """What is missing or not as it was installed, of all packages of the environment in `path`.

    Args:
        path: of the environment.
        hashes: read the contents too, some gigabytes; else sizes only, which takes a fraction of a second.
        records: what `records_in` gave when it was complete, as far as that is known.
        say: called with one line of text every two seconds.
    """
    found: list[Damage] = []
    listed: list[_File] = []
    for distribution in _distributions(path):
        name, record = _name(distribution), _record(distribution)
        digest = hashlib.sha256(record or b"").hexdigest()
        if record is None or records.get(name, digest) != digest:
            found.append(Damage(name, "its list of files is missing or damaged"))
            continue
        try:
            listed += _listed(name, record, Path(str(distribution.locate_file(""))))
        except (ValueError, csv.Error) as error:
            found.append(Damage(name, f"its list of files is damaged: {error}"))
    last = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # Reading and hashing let go of Python's lock; a look at the size is over before a thread would have begun.
        problems = (pool.map if hashes else map)(partial(_problem, hashes), listed)
        for number, (file, problem) in enumerate(zip(listed, problems, strict=True)):
            if problem:
                found.append(Damage(file.package, f"{file.name} {problem}"))
            if time.monotonic() - last >= HEARTBEAT:
                last = time.monotonic()
                say(f"compared {number + 1} of {len(listed)} files")
    return found


def _distributions(path: Path) -> list[importlib.metadata.Distribution]:
    pattern = "Lib/site-packages" if os.name == "nt" else "lib/python*/site-packages"
    return list(importlib.metadata.distributions(path=[str(site) for site in path.glob(pattern)]))


def _name(distribution: importlib.metadata.Distribution) -> str:
    """Its name; that of its folder where it is too damaged to say it."""
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
        # Compiled files are ours: wheels that bring their own (NumPy 1.26) have them replaced.
        if len(row) == 3 and row[2] and not row[0].endswith(".pyc"):
            yield _File(package, row[0], root / row[0], int(row[2]), row[1])


def _problem(hashes: bool, file: _File) -> str:
    """What is wrong with a file; empty where nothing is."""
    try:
        found = file.path.stat()
        if not stat.S_ISREG(found.st_mode):
            return "is no file"
        if found.st_size != file.size:
            return f"has {found.st_size} bytes in place of {file.size}"
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
