"""The user's own code: loaded from its file, given its arguments, and called so that what it raises is shown as its own
lines, without those of xbackend."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import xbackend as xb
from xbackend import errors
from xbackend.cli.options import MOST, Assignments
from xbackend.devices import DeviceMap, is_device
from xbackend.errors import ArgumentError, UsageError, XBackendError
from xbackend.program.dtypes import as_dtype
from xbackend.program.host import check_fits, host_array
from xbackend.program.program import Program

_SPEC = re.compile(r"(?P<dtype>[a-z]+[0-9]*)\[(?P<shape>[0-9, ]*)\]$")
_OURS = (str(Path(errors.__file__).resolve().parent), "<frozen importlib")
_HEADER = "Traceback (most recent call last):\n"


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Turn what the user's code raises in the block into a `UsageError` that ends with the user's lines.

    Errors of xbackend name the user's line already and pass, as does Ctrl-C.
    """
    try:
        yield
    except XBackendError:
        raise
    except (Exception, SystemExit) as error:
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

    Args:
        target: the file and the function.
        inputs: each argument as it is typed, or none to ask the file's own function ``inputs()``.
        settings: the function's keyword arguments.
        seed: of the random numbers in ``inputs``.

    Raises:
        UsageError: there is no such function, it failed, or an argument is not understood.
        ArgumentError, DTypeError, ...: what `xbackend.trace` refuses.
    """
    function, module = _load(target)
    generator = np.random.default_rng(seed)
    arrays = [_argument(spec, generator) for spec in inputs] if inputs else _own_inputs(module, target)
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


def _argument(spec: str, generator: np.random.Generator) -> np.ndarray:
    """An argument as written on the command line. Raises `UsageError`, `ArgumentError`, `DTypeError`."""
    if spec.endswith(".npy"):
        return _stored(Path(spec))
    match = _SPEC.match(spec)
    if match is None:
        return _number(spec)
    dtype = as_dtype(match["dtype"], f"--input {spec}: dtype")
    shape = tuple(int(n[:20]) for n in match["shape"].replace(",", " ").split())
    drawn = 8  # bytes of each random number, before it is one of the dtype
    check_fits(math.prod(shape) * (drawn + dtype.itemsize), f"--input {spec}")
    try:
        if dtype.is_floating:
            return generator.random(shape).astype(dtype.value)
        return generator.integers(0, 2 if dtype == "bool" else 10, shape).astype(dtype.value)
    except ValueError as error:  # more axes, or a longer one, than NumPy has
        raise UsageError(f"--input {spec}: {error}") from None


def _number(spec: str) -> np.ndarray:
    try:
        number = int(spec) if re.fullmatch(r"[+-]?\d+", spec) else float(spec)
    except ValueError:
        raise UsageError(f"--input {spec!r} is no number, no FILE.npy and not like float32[3,4]") from None
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise UsageError(f"--input {spec} does not fit into int64; write {spec}.0 for a float64")
    return np.asarray(number)


def _stored(path: Path) -> np.ndarray:
    try:
        check_fits(path.stat().st_size, f"--input {path}")
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, MemoryError) as error:
        raise UsageError(f"--input {path}: {getattr(error, 'strerror', None) or error}") from None
    return array


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


def bound(program: Program, asked: DeviceMap | None, virtual: int | None = None) -> tuple[dict[str, Any], int]:
    """What the program's logical names are bound to, and how many CPU devices that takes.

    Those that were ``asked`` for, else spread over ``virtual`` devices, or over as many as there are names; a name
    without a binding stays an error of compiling. Raises `UsageError` for more devices than can be made.
    """
    names = program.logical_devices
    bindings = asked or DeviceMap.spread(names, [xb.Device("cpu", i) for i in range(virtual or max(len(names), 1))])
    fixed = [xb.Device.parse(n.device) for n in program.nodes if n.device and is_device(n.device)]
    cpus = [d.index for d in [*bindings.values(), *fixed] if d.kind == "cpu"]
    count = virtual or max([0, *cpus]) + 1
    if count > MOST:
        raise UsageError(f"cpu:{count - 1} needs {count} CPU devices; xbackend makes at most {MOST}")
    return {name: bindings[name] for name in names if name in bindings}, count
