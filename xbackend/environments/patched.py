"""The user's framework on disk: ``pytensor=PATH`` replaces the one in its locked environment, or the environment."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

from xbackend.environments import folders, interpreters
from xbackend.environments.recipes import Recipe, recipe
from xbackend.errors import EnvironmentFailed
from xbackend.files import make_own, new_folder

_WRONG = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, tarfile.TarError)  # of a bad archive
_ARCHIVES = (".whl", ".zip", ".tar.gz")


def find(name: str) -> Recipe:
    """The recipe of ``FRAMEWORK=PATH``. The path is an interpreter, or a folder with ``bin/python`` (a virtual
    environment); or the framework's package; or a checkout, a wheel or a source distribution (unpacked or not) with the
    package at its top or in ``src``.

    Raises:
        EnvironmentFailed: there is no such framework, or no such package, or the file cannot be unpacked.
    """
    framework, _, place = name.partition("=")
    base, path = recipe(framework.strip()), Path(place.strip()).expanduser().absolute()
    interpreter = interpreters.at(place.strip())
    if interpreter is not None and not path.name.endswith(_ARCHIVES):
        return replace(base, name=f"{base.framework}={path}", interpreter=interpreter)
    folder = _package(_unpacked(path) if path.is_file() else path, base.framework)
    if folder is not None:
        return replace(base, name=f"{base.framework}={path}", folder=folder.resolve())
    raise EnvironmentFailed(
        f"{name!r} names no environment: {path} holds no package {base.framework} ({base.framework}/__init__.py, or "
        f"src/{base.framework}/__init__.py) and no interpreter (bin/python): give the folder of a checkout, a wheel or "
        f"source distribution, a virtual environment or its interpreter, or {base.framework}==VERSION"
    )


def unpacked_of(framework: str) -> list[Path]:
    """The folders of a framework's unpacked wheels and source distributions."""
    there = [path for path in folders.unpacked().glob("[!.]*") if path.is_dir()]
    return [path for path in there if _package(_inner(path), framework) is not None]


def _package(root: Path, name: str) -> Path | None:
    """The folder of a package: in ``root``, in its ``src``, or ``root`` itself."""
    found = (folder for folder in (root / name, root / "src" / name, root) if folder.name == name)
    return next((folder for folder in found if (folder / "__init__.py").is_file()), None)


def _inner(target: Path) -> Path:
    """The single folder in which a source distribution has its files, or ``target``."""
    below = list(target.iterdir())
    return below[0] if len(below) == 1 and not (below[0] / "__init__.py").is_file() else target


def _unpacked(file: Path) -> Path:
    """The unpacked folder of a wheel or a source distribution. A changed file is unpacked anew."""
    try:
        with file.open("rb") as content:
            target = folders.unpacked() / hashlib.file_digest(content, "sha256").hexdigest()
        if not target.is_dir():
            _unpack(file, target)
    except _WRONG as error:
        raise EnvironmentFailed(
            f"{file} cannot be unpacked: {error}; give a wheel (.whl), a source distribution (.tar.gz), or the folder "
            "of one that is unpacked"
        ) from error
    return _inner(target)


def _unpack(file: Path, target: Path) -> None:
    make_own(target.parent)
    with new_folder(target) as made:
        if file.name.endswith(".tar.gz"):
            shutil.unpack_archive(file, made, "gztar", filter="data")
        elif file.suffix in (".whl", ".zip"):
            shutil.unpack_archive(file, made, "zip")
        else:
            raise ValueError("it is neither")
        for path in made.rglob("*"):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o755)  # others must not write to files that are run
        try:
            os.rename(made, target)
        except OSError:
            if not target.is_dir():  # else another process has just unpacked it
                raise
