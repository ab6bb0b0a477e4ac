"""The user's own code: loaded from its file, given its arguments, and called so that what it raises is shown as its own
lines, without those of xbackend."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import xbackend as xb
from xbackend import errors
from xbackend.cli.options import Assignments
from xbackend.errors import ArgumentError, UsageError, XBackendError
from xbackend.program.host import host_array
from xbackend.program.program import Program
from xbackend.program.spelling import spelled

_OURS = (str(Path(errors.__file__).resolve().parent), "<frozen importlib")
_HEADER = "Traceback (most recent call last):\n"


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Turn what the user's code raises in the block into a `UsageError` that ends with the user's lines.

    Errors of xbackend name the user's line already and pass, as does Ctrl-C.
    """
    try:
        yield
    except (XBackendError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, and what is derived from none of Python's own errors
        raise UsageError(f"{what} raised {type(error).__name__}:\n{_lines(error)}") from None


def _lines(error: BaseException) -> str:
    """The traceback of an error without xbackend's frames, and without a heading that would look like a crash."""
    lines = traceback.TracebackException.from_exception(error)
    _strip(lines)
    return "".join(line for line in lines.format() if line.strip(" |+") != _HEADER).rstrip()


def _strip(lines: traceback.TracebackException | None) -> None:
    if lines is None:
        return
    users = [frame for frame in lines.stack if not frame.filename.startswith(_OURS)]
    lines.stack = traceback.StackSummary.from_list(users)
    for other in (lines.__cause__, lines.__context__, *(lines.exceptions or ())):
        _strip(other)


def traced(
    target: str, inputs: Sequence[str] | None, settings: Assignments, seed: int
) -> tuple[Program, list[np.ndarray]]:
    """The program of the function that ``FILE.py:FUNCTION`` names, and the arrays that it was traced with.

    ``inputs`` are its arguments as they are typed; without any, the file's own function ``inputs()`` is asked. Raises
    `UsageError` for what is not there, not understood or fails, and what `xbackend.trace` raises.
    """
    function, module = _load(target)
    generator = np.random.default_rng(seed)
    arrays = [spelled(i, f"--input {i}", generator) for i in inputs] if inputs else _own_inputs(module, target)
    try:
        with calling(target):
            return xb.trace(function, *arrays, **dict(settings or ())), arrays
    except ArgumentError as error:
        if arrays:
            raise
        raise UsageError(f"{error}; give each array with --input: float32[2,3], FILE.npy or a number") from None


def _load(target: str) -> tuple[Callable[..., Any], Any]:
    """The function that ``FILE.py:FUNCTION`` names, and its module. Raises `UsageError`."""
    file, separator, name = target.rpartition(":")
    path = Path(file)
    if not separator or path.suffix != ".py" or not name.isidentifier():
        raise UsageError(f"{target!r} is not FILE.py:FUNCTION")
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # as an import of it would find it, but never in the place of another
    # As for a script, what lies beside the file can be imported.
    sys.path.insert(0, str(path.parent.resolve()))
    with calling(str(path)):
        spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        functions = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise UsageError(f"{path} has no function {name!r}; it has {', '.join(sorted(functions)) or 'none'}")
    return function, module


def _own_inputs(module: Any, target: str) -> list[np.ndarray]:
    make = getattr(module, "inputs", None)
    if not callable(make):
        return []
    file = target.rpartition(":")[0]
    with calling(f"inputs() of {file}"):
        made = make()
    if not isinstance(made, list | tuple):
        raise UsageError(
            f"inputs() of {file} returns {type(made).__name__}: return a list or tuple with one array for each argument"
        )
    return [host_array(a, f"argument {i} from inputs() of {file}") for i, a in enumerate(made)]
