"""The directories that xbackend keeps. Nobody else may write to them, as their files are run."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from xbackend.errors import EnvironmentFailed
from xbackend.files import open_to_others


def home() -> Path:
    """The directory of all others: $XBACKEND_HOME, or the user's data directory.

    Raises:
        EnvironmentFailed: others can write to it, and $XBACKEND_SHARED_HOME does not allow it.
    """
    path = Path(os.environ.get("XBACKEND_HOME") or platformdirs.user_data_dir("xbackend")).expanduser().absolute()
    return _own(path)


def directory() -> Path:
    """The directory of the environments. Raises as `home` does."""
    return _own(home() / "environments")


def requirements() -> Path:
    """The directory of the resolved requirements for versions that the user named. Raises as `home` does."""
    return _own(home() / "requirements")


def unpacked() -> Path:
    """The directory of the user's unpacked wheels and source distributions. Raises as `home` does."""
    return _own(home() / "unpacked")


def compiled() -> Path:
    """The directory of compiled code that sessions leave for later ones. Raises as `home` does."""
    return _own(home() / "compiled-programs")


def _own(path: Path) -> Path:
    """A directory that others can neither write to nor replace. Raises `EnvironmentFailed`."""
    if said := open_to_others(path):
        raise EnvironmentFailed(said)
    return path
