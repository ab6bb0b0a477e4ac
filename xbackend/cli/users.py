"""The user's own code: loaded from its file, given its arguments, and called so that what it raises is shown as its own
lines, without those of xbackend."""

from __future__ import annotations

import importlib
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
from xbackend.measure import candidates
from xbackend.measure.candidates import Task
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
    function, arrays = _loaded(target, inputs, seed)
    with _asking(target, arrays):
        return xb.trace(function, *arrays, **dict(settings or ())), arrays


def task(target: str, inputs: Sequence[str] | None, settings: Assignments, seed: int, devices: int = 1) -> Task:
    """What is measured of the function that ``FILE.py:FUNCTION`` names, by the function's name, as `traced` loads it.

    Its oracle is NumPy in float64 with so many ``devices``. Raises as `traced` does.
    """
    function, arrays = _loaded(target, inputs, seed)
    name = target.rpartition(":")[2]
    with _asking(target, arrays):
        return candidates.brought(name, function, arrays, static=dict(settings or ()), devices=devices)


def _loaded(target: str, inputs: Sequence[str] | None, seed: int) -> tuple[Callable[..., Any], list[np.ndarray]]:
    function, module = _load(target)
    generator = np.random.default_rng(seed)
    arrays = [spelled(i, f"--input {i}", generator) for i in inputs] if inputs else _own_inputs(module, target)
    return function, arrays


@contextmanager
def _asking(target: str, arrays: Sequence[np.ndarray]) -> Iterator[None]:
    """`calling`, and where there were no arrays, and some were needed, how to give them."""
    try:
        with calling(target):
            yield
    except ArgumentError as error:
        if arrays:
            raise
        raise UsageError(f"{error}; give each array with --input: float32[2,3], FILE.npy or a number") from None


@contextmanager
def alone(folder: Path, root: Path) -> Iterator[None]:
    """In the block, code is imported from a folder first. What came from below ``root`` is forgotten at its end, so
    that the same names can come from another one."""
    modules, path = set(sys.modules), list(sys.path)
    sys.path[:0] = [str(folder), str(folder / "src")]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        for name in imported(root) - modules:
            del sys.modules[name]


def imported(folder: Path) -> set[str]:
    """The names of the modules that were imported from files below a folder."""
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    return {name for name, file in files.items() if file and Path(file).resolve().is_relative_to(folder.resolve())}


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
