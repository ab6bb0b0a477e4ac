"""The directories that xbackend keeps things in, which nobody else may write to: what lies there is run."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

import platformdirs

from xbackend.errors import EnvironmentFailed

SHARED = "XBACKEND_SHARED_HOME"


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


def make(path: Path) -> None:
    """Make a directory and those above it, which others cannot write to whatever the umask is."""
    for one in [*reversed(path.parents), path]:
        if not one.is_dir():
            one.mkdir(mode=0o755, exist_ok=True)


def shared() -> bool:
    """Whether the user says that others may write to what xbackend keeps."""
    return os.environ.get(SHARED, "") not in ("", "0")


def writers(path: Path) -> str:
    """Who else can write to a directory or file, in words; empty where nobody can, or where that is not known."""
    try:
        status = path.stat()
    except OSError:  # it is not there, or will be an error when it is used
        return ""
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to {_user(status.st_uid)}"
    if status.st_mode & stat.S_IWOTH:
        return "everybody can write to it"
    if status.st_mode & stat.S_IWGRP and not _own_group(status.st_gid):
        return f"the group {_group(status.st_gid)} can write to it"
    return ""


def _own(path: Path) -> Path:
    """A directory which others cannot write to, nor put another one in its place. Raises `EnvironmentFailed`."""
    real = Path(os.path.realpath(path))
    for one in () if shared() else (real, *real.parents):
        who = writers(one)
        if who and (one == real or not _sticky(one)):
            raise EnvironmentFailed(
                f"{one} is open to others: {who}, and what is kept in {path} is run. Type `chmod go-w {one}` if it is "
                "yours, or set XBACKEND_HOME to a directory of your own; if you trust all who can write there, set "
                f"{SHARED}=1"
            )
    return path


def _sticky(path: Path) -> bool:
    """Whether others can write to a directory but not rename what is not theirs, as in /tmp."""
    status = path.stat()
    return bool(status.st_mode & stat.S_ISVTX) and status.st_uid in (0, os.geteuid())


def _own_group(number: int) -> bool:
    """Whether a group is the user's alone, as Debian and Fedora make one for each: it has the user's name."""
    try:
        group = grp.getgrgid(number)
    except KeyError:
        return False
    name = _user(os.geteuid())
    return group.gr_name == name and set(group.gr_mem) <= {name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
