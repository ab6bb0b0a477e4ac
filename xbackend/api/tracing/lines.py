"""The user's source line of a node or an error."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import numpy as np

# Frames in these files and folders are not the user's: this package, and NumPy, whose functions call it back.
_PACKAGE = Path(__file__).parents[2]
_FOLDERS = ("program", "api", "eager", "backends", "strategies", "training", "bring")
_NOT_THE_USERS = (
    *(str(_PACKAGE / file) for file in ("devices.py", "habits.py")),
    *(f"{folder}{os.sep}" for folder in (*(_PACKAGE / name for name in _FOLDERS), Path(np.__file__).parent)),
)
_own_code: dict[CodeType, bool] = {}


def _is_own(code: CodeType) -> bool:
    own = _own_code.get(code)
    if own is None:
        own = _own_code[code] = code.co_filename.startswith(_NOT_THE_USERS)
    return own


def caller() -> str:
    """``file:line`` of the innermost frame outside of this package: the user's line."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _is_own(frame.f_code):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def raised_at(traceback: TracebackType | None, function: Callable[..., Any]) -> str:
    """``file:line`` of the user's innermost line in the traceback, else of the function itself.

    For functions without a user's line (a strategy's, a program) it is the line that had them traced.
    """
    where = ""
    while traceback is not None:
        if not _is_own(traceback.tb_frame.f_code):
            where = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    code = getattr(inspect.unwrap(function), "__code__", None)
    if where:
        return where
    return caller() if code is None or _is_own(code) else f"{code.co_filename}:{code.co_firstlineno}"
