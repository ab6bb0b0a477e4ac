"""The directories that xbackend keeps things in, which nobody else may write to: what lies there is run."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from xbackend.errors import EnvironmentFailed
from xbackend.files import open_to_others


def home() -> Path:
    """The directory of everything that xbackend keeps: $XBACKEND_HOME, or the user's data directory.

    Raises:
        EnvironmentFailed: others can write to it, and $XBACKEND_SHARED_HOME does not say that they may.
    """
    path = Path(os.environ.get("XBACKEND_HOME") or platformdirs.user_data_dir("xbackend")).expanduser().absolute()
    return _own(path)


def directory() -> Path:
    """The directory that holds the environments. Raises as `home` does."""
    return _own(home() / "environments")


def requirements() -> Path:
    """The directory that holds what was resolved for versions of frameworks that the user named. Raises as `home`."""
    return _own(home() / "requirements")


def unpacked() -> Path:
    """The directory that holds what wheels and source distributions of the user had in them. Raises as `home`."""
    return _own(home() / "unpacked")


def compiled() -> Path:
    """The directory that holds what sessions compiled and later ones begin with. Raises as `home` does."""
    return _own(home() / "compiled-programs")


def _own(path: Path) -> Path:
    """A directory which others cannot write to, nor put another one in its place. Raises `EnvironmentFailed`."""
    if said := open_to_others(path):
        raise EnvironmentFailed(said)
    return path
