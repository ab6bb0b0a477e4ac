"""A framework of the user's own on disk: ``pytensor=PATH``, in the place of the one in its locked environment."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xbackend.environments import folders
from xbackend.environments.recipes import Recipe, recipe
from xbackend.errors import EnvironmentFailed
from xbackend.files import make_own, new_folder

_WRONG = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, tarfile.TarError)  # of an archive
ARCHIVES = (".whl", ".zip", ".tar.gz")


@dataclass(frozen=True, kw_only=True)
class OfTheUser(Recipe):
    """A framework of the user's own, in the place of the one that the recipe ``base`` locks."""

    base: Recipe

    @property
    def framework(self) -> str:
        return self.base.name

    @property
    def stem(self) -> str:
        return self.base.stem

    @property
    def source(self) -> Path:
        return self.base.source

    @property
    def lock(self) -> Path:
        return self.base.lock

    @property
    def command(self) -> str:
        return self.base.command

    def check_removable(self) -> None:
        raise EnvironmentFailed(
            f"{self.name!r} has no environment of its own, and what is there is yours. xbackend env remove "
            f"{self.framework} removes the locked one, and what was unpacked of wheels and source distributions"
        )


@dataclass(frozen=True, kw_only=True)
class PatchedRecipe(OfTheUser):
    """The environment of the recipe ``base``, whose framework is imported from the package in ``folder``."""

    folder: Path

    @property
    def modules(self) -> Mapping[str, str]:
        return {self.framework: str(self.folder)}


def find(name: str) -> Recipe:
    """The recipe of ``FRAMEWORK=PATH``: a checkout, a wheel or a source distribution, unpacked or not, that holds the
    package of the framework, itself or in ``src``; or that package.

    Raises:
        EnvironmentFailed: there is no such framework, or no such package, or the file cannot be unpacked.
    """
    framework, _, place = name.partition("=")
    base, path = recipe(framework.strip()), Path(place.strip()).expanduser().absolute()
    folder = _package(_unpacked(path) if path.is_file() else path, base.name)
    if folder is not None:
        return PatchedRecipe(
            f"{base.name}={path}", base.newest_python, base.sources, base=base, folder=folder.resolve()
        )
    raise EnvironmentFailed(
        f"{name!r} names no environment: {path} holds no package {base.name} ({base.name}/__init__.py, or "
        f"src/{base.name}/__init__.py) and no interpreter (bin/python): give the folder of a checkout, a wheel or "
        f"source distribution, a virtual environment or its interpreter, or {base.name}==VERSION"
    )


def unpacked_of(framework: str) -> list[Path]:
    """The folders of what was unpacked of wheels and source distributions of a framework."""
    there = [path for path in folders.unpacked().glob("[!.]*") if path.is_dir()]
    return [path for path in there if _package(_inner(path), framework) is not None]


def _package(root: Path, name: str) -> Path | None:
    """The folder of the package of that name: in this one, in its ``src``, or this one itself."""
    found = (folder for folder in (root / name, root / "src" / name, root) if folder.name == name)
    return next((folder for folder in found if (folder / "__init__.py").is_file()), None)


def _inner(target: Path) -> Path:
    """The folder that a source distribution has all its files in, or this one."""
    below = list(target.iterdir())
    return below[0] if len(below) == 1 and not (below[0] / "__init__.py").is_file() else target


def _unpacked(file: Path) -> Path:
    """The folder that a wheel or a source distribution holds; it is unpacked once, and again where it has changed."""
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
                path.chmod(path.stat().st_mode & 0o755)  # what others could write to would be run
        try:
            os.rename(made, target)
        except OSError:
            if not target.is_dir():  # nobody else unpacked it meanwhile
                raise
