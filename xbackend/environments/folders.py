"""The directories that xbackend keeps things in."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """The directory of everything that xbackend keeps: $XBACKEND_HOME, or the user's data directory."""
    return Path(os.environ.get("XBACKEND_HOME") or platformdirs.user_data_dir("xbackend")).expanduser().absolute()


def directory() -> Path:
    """The directory that holds the environments."""
    return home() / "environments"


def requirements() -> Path:
    """The directory that holds what was resolved for versions of frameworks that the user named."""
    return home() / "requirements"
