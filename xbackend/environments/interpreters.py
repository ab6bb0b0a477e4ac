"""The Pythons of this machine, for making environments.

The search order is: this interpreter, the `PATH`, the folder of pyenv's versions (its own commands refuse those that
are not switched on), and the folder of uv's versions.
"""

from __future__ import annotations

import functools
import glob
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbackend.errors import EnvironmentFailed

Version = tuple[int, int]

LOWEST: Version = (3, 11)
VARIABLE = "XBACKEND_PYTHON"
_START = 60.0  # seconds that an interpreter may take to start
_WHO = (
    "import json, sys, sysconfig\n"
    "print(json.dumps([sys.version_info[:2], getattr(sys, '_base_executable', sys.executable) or sys.executable, "
    "sysconfig.get_path('include', vars={'installed_base': sys.base_prefix})]))\n"
)


def at(place: str) -> Path | None:
    """The interpreter at a path, or in the virtual environment there; `None` where there is none."""
    path = Path(place).expanduser().absolute()
    path = path / "bin" / "python" if path.is_dir() else path
    return path if path.is_file() and os.access(path, os.X_OK) else None


@dataclass(frozen=True)
class Interpreter:
    """A Python.

    Attributes:
        version: (major, minor).
        path: its file; empty if it is not on this machine: uv downloads it.
        include: the folder for its C headers, even if they are missing; empty without a path.
    """

    version: Version
    path: str = ""
    include: str = ""

    def __str__(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"


def choices(newest: Version) -> list[Interpreter]:
    """The candidate Pythons for an environment whose packages support Pythons up to ``newest``, the best first.

    They are this machine's, the newest first; without any, ``newest`` itself. `XBACKEND_PYTHON` (the option
    ``--python``), if not above ``newest``, is the only candidate, even if it is not on this machine.

    Raises:
        EnvironmentFailed: `XBACKEND_PYTHON` is no version of Python that xbackend knows.
    """
    wanted = asked()
    if wanted is not None and wanted <= newest:
        return [find(wanted) or Interpreter(wanted)]
    versions = [(3, minor) for minor in range(newest[1], LOWEST[1] - 1, -1)]
    return list(filter(None, map(find, versions))) or [Interpreter(newest)]


@functools.cache
def find(version: Version) -> Interpreter | None:
    """A working Python of this version on this machine; `None` if there is none."""
    for candidate in dict.fromkeys(_candidates(version)):
        python = _look(candidate)
        if python is not None and python.version == version:
            return python
    return None


def asked() -> Version | None:
    """The version in `XBACKEND_PYTHON`, `None` if it is empty. Raises `EnvironmentFailed`."""
    text = os.environ.get(VARIABLE, "").strip()
    try:
        return version(text) if text else None
    except ValueError as error:
        raise EnvironmentFailed(f"{VARIABLE}: {error}") from None


def version(text: str) -> Version:
    """The version written as ``3.12``. Raises `ValueError` for other text, or a version too old for xbackend."""
    match = re.fullmatch(r"3\.(\d{1,9})", text)
    if match is None or (number := (3, int(match[1]))) < LOWEST:
        raise ValueError(f"{text!r} is no version of Python: write one such as 3.11, which is the oldest")
    return number


def _candidates(version: Version) -> Iterator[str]:
    name = f"python{version[0]}.{version[1]}"
    # In a virtual environment sys.executable belongs to that environment, which may be deleted before ours.
    base = getattr(sys, "_base_executable", None)
    if sys.version_info[:2] == version and base:
        yield base
    for folder in os.get_exec_path():
        if Path(folder).name != "shims":  # pyenv's: they refuse versions that are not switched on
            yield os.path.join(folder, name)
    pyenv = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    managed = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    pattern = f"*{version[0]}.{version[1]}.*/bin/{name}"
    for versions in (pyenv, managed):  # glob.glob passes over a folder that this user may not read
        yield from sorted(glob.glob(os.path.join(glob.escape(str(versions)), pattern)), key=_patch, reverse=True)


def _patch(path: str) -> tuple[int, ...]:
    """The numbers in the name of a Python's folder: 3.12.10 sorts after 3.12.9."""
    return tuple(map(int, re.findall(r"\d+", Path(path).parent.parent.name)))


def _look(path: str) -> Interpreter | None:
    """Run the Python at a path; `None` if it is missing, does not run or is no Python."""
    if not os.access(path, os.X_OK):
        return None
    try:
        (major, minor), executable, include = ask(path, _WHO)
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):  # a broken one is no candidate
        return None
    return Interpreter((major, minor), executable, include)


def ask(path: str | Path, code: str, site: bool = False) -> Any:
    """Run code in an interpreter and read its output as JSON. ``site``: with its packages.

    Raises `OSError`, `subprocess.SubprocessError`, `ValueError`.
    """
    command = [path, "-I", *([] if site else ["-S"]), "-c", code]
    return json.loads(subprocess.run(command, capture_output=True, timeout=_START, check=True, cwd="/").stdout)
