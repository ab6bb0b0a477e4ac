"""Which lines of a framework's tracebacks are the user's."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path

from xbackend.bring.kinds import KINDS

_NEVER = (sysconfig.get_path("stdlib") + os.sep, str(Path(__file__).resolve().parents[1]) + os.sep, "<")


@lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Whether a file is the user's: not one of Python, xbackend, a framework or another installed package."""
    if file.startswith(_NEVER) or f"{os.sep}site-packages{os.sep}" in file:
        return False
    # A framework may be imported from a folder of its sources.
    modules = (getattr(sys.modules.get(name), "__file__", None) for name in KINDS)
    return not any(file.startswith(str(Path(one).parent) + os.sep) for one in modules if one)
