"""Packages that may be absent: those of an extra, which sessions, reports and commands need (scripts that trace, open
and run do not), and the framework of a graph that comes in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from xbackend.errors import UsageError

# Of the extra ``commands``; tests/test_packaging.py compares them with pyproject.toml.
COMMANDS = ("cyclopts", "jinja2", "matplotlib", "rich", "safetensors", "scipy")


def need(what: str, packages: Sequence[str] = COMMANDS, extra: str = "commands") -> None:
    """Raises `UsageError`, which says what to type, if a package that ``what`` needs is not installed."""
    lacking = [package for package in packages if find_spec(package) is None]
    if lacking:
        raise UsageError(f"{what} takes {', '.join(lacking)}, not installed here: pip install 'xbackend[{extra}]'")


def need_framework(what: str, package: str) -> None:
    """Raises `UsageError`, which says what to type, if this interpreter has no such framework."""
    if find_spec(package) is None:
        raise UsageError(
            f"{what} takes {package}, not installed in {sys.executable}: call it where {package} is, or type "
            f"xbackend run FILE.py:NAME --from {package}, which has an environment of its own"
        )
