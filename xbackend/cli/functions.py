"""``run`` and ``draw``: the user's own functions."""

from __future__ import annotations

import argparse
import importlib.util
import math
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import xbackend as xb
from xbackend import workloads
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.backends.placement import Placement
from xbackend.cli import DONE, INCOMPLETE
from xbackend.cli.console import progress, say, table
from xbackend.cli.machines import chosen, ready
from xbackend.cli.parser import MOST
from xbackend.cli.users import calling
from xbackend.devices import DeviceMap, is_device
from xbackend.drawing import forms
from xbackend.errors import ArgumentError, BackendUnavailable, UsageError, XBackendError
from xbackend.measure.loop import FOREIGN
from xbackend.measure.machine import load_warnings
from xbackend.program.dtypes import as_dtype
from xbackend.program.host import check_fits, host_array
from xbackend.program.program import Program
from xbackend.program.structure import flatten
from xbackend.workers.remote import RemoteBackend

_SPEC = re.compile(r"(?P<dtype>[a-z]+[0-9]*)\[(?P<shape>[0-9, ]*)\]$")


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
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            raise UsageError(f"--input {path} is no file")
        check_fits(status.st_size, f"--input {path}")
        with path.open("rb") as file:
            array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    except XBackendError:
        raise
    except Exception as error:  # a damaged header fails in NumPy's parser, in many ways
        raise UsageError(f"--input {path}: {getattr(error, 'strerror', None) or error}") from None
    return array


def _arguments(options: argparse.Namespace, module: Any) -> list[np.ndarray]:
    if options.inputs:
        generator = np.random.default_rng(options.seed)
        return [_argument(spec, generator) for spec in options.inputs]
    make = getattr(module, "inputs", None)
    if not callable(make):
        return []
    file = options.target.rpartition(":")[0]
    with calling(f"inputs() of {file}"):
        made = make()
    if not isinstance(made, list | tuple):
        raise UsageError(
            f"inputs() of {file} returns {type(made).__name__}: return a list or tuple with one array for each argument"
        )
    return [host_array(a, f"argument {i} from inputs() of {file}") for i, a in enumerate(made)]


def _traced(options: argparse.Namespace) -> tuple[Program, list[np.ndarray]]:
    function, module = _load(options.target)
    arrays = _arguments(options, module)
    try:
        with calling(options.target):
            return xb.trace(function, *arrays, **dict(options.static)), arrays
    except ArgumentError as error:
        if arrays:
            raise
        raise UsageError(f"{error}; give each array with --input: float32[2,3], FILE.npy or a number") from None


def _drawn_program(options: argparse.Namespace) -> tuple[Program, list[np.ndarray]]:
    """What `draw` was given: a workload, a program's JSON file (which has no arguments), or a function in a file."""
    if options.target in workloads.names():
        _refuse(options, "inputs")
        workload = workloads.get(options.target)
        parameters = workload.resolve(**{"size": 8, **dict(options.static)})
        inputs = workload.inputs(seed=options.seed, **parameters)
        return xb.trace(workload.program(**parameters), *inputs), list(inputs)
    if options.target.endswith(".json"):
        _refuse(options, "inputs", "static")
        path = Path(options.target)
        if not path.is_file():
            raise UsageError(f"there is no file {path}")
        return xb.Program.from_json(path.read_bytes()), []
    return _traced(options)


def _refuse(options: argparse.Namespace, *names: str) -> None:
    """Options that would do nothing for this target are an error. Raises `UsageError`."""
    for name in names:
        if getattr(options, name):
            given = {"inputs": "--input", "static": "--set"}[name]
            raise UsageError(f"{given} is for a FILE.py:FUNCTION; {options.target} has its own")


def draw(options: argparse.Namespace) -> int:
    """Print a drawing: of a program, its logical devices bound if bindings are given, or of what a backend executed."""
    program, arrays = _drawn_program(options)
    if options.backend is not None:
        say(_executed(program, arrays, options).rstrip("\n"))
        return DONE
    if options.devices:
        from xbackend.program.binding import bind

        bindings = options.devices
        devices = sorted({*bindings.values(), xb.Device("cpu", 0)}, key=str)
        program = bind(program, bindings, devices, xb.Device("cpu", 0)).program
    say(forms.draw(program, options.form).rstrip("\n"))
    return DONE


def _executed(program: Program, arrays: Sequence[np.ndarray], options: argparse.Namespace) -> str:
    """The drawing of what a backend executed."""
    (name,) = chosen([options.backend])
    if len(arrays) != len(program.inputs):
        raise UsageError(f"{options.target} holds no arguments to run it with; draw a FILE.py:FUNCTION or a workload")
    bindings, count = _bindings(program, options)
    with progress() as shown:
        for reason in ready([name], shown).values():
            raise BackendUnavailable(reason)
        shown(f"running on {name}")
        with RemoteBackend(name, Settings(virtual_devices=count)) as backend:
            executable = backend.compile(program, devices=_only(bindings, program), placement="soft")
            executable(*arrays)
            return executable.draw(options.form)


def _bindings(program: Program, options: argparse.Namespace) -> tuple[DeviceMap, int]:
    """What logical names are bound to, and how many CPU devices that takes."""
    names = program.logical_devices
    virtual = getattr(options, "virtual_devices", None)
    if options.devices:
        bindings = options.devices
    else:
        count = virtual or max(len(names), 1)
        bindings = DeviceMap.spread(names, [xb.Device("cpu", i) for i in range(count)])
    fixed = [xb.Device.parse(n.device) for n in program.nodes if n.device and is_device(n.device)]
    cpus = [d.index for d in [*bindings.values(), *fixed] if d.kind == "cpu"]
    count = virtual or max([0, *cpus]) + 1
    if count > MOST:
        raise UsageError(f"cpu:{count - 1} needs {count} CPU devices; xbackend makes at most {MOST}")
    return bindings, count


def _placement_text(placement: Placement) -> str:
    ran: Counter[str] = Counter(record.executed or record.status for record in placement.ops)
    back: Counter[str] = Counter()
    for record in placement.backward:
        back[record.executed or record.status] += record.count
    moved = sum(r.status == "moved" for r in placement.ops)
    moved += sum(r.count for r in placement.backward if r.status == "moved")
    text = ", ".join(f"{where}: {n} ops" for where, n in sorted(ran.items()))
    return (
        text
        + "".join(f", {n} backward ops on {where}" for where, n in sorted(back.items()))
        + (f", {len(placement.transfers)} transfers" if placement.transfers else "")
        + (f", {moved} MOVED" if moved else "")
    )


def _tolerance(options: argparse.Namespace, program: Program) -> float:
    """The largest relative difference that passes."""
    return workloads.tolerance_of(program) if options.tolerance is None else float(options.tolerance)


def run(options: argparse.Namespace) -> int:
    """Run a function on backends; print results' agreement, time and placement."""
    names = chosen(options.backends)
    program, arrays = _traced(options)
    bindings, count = _bindings(program, options)
    rows, first, well, tolerance = [], None, True, _tolerance(options, program)
    warnings = load_warnings()
    with progress() as shown:
        failures = ready(names, shown)
        for name in names:
            shown(f"running on {name}")
            reason = failures.get(registry.get(name).environment)
            if reason is not None:
                rows.append([name, "failed", "-", reason])
                well = False
                continue
            try:
                with RemoteBackend(name, Settings(virtual_devices=count)) as backend:
                    executable = backend.compile(program, devices=_only(bindings, program))
                    leaves, _ = flatten(executable(*arrays), np.asarray)
                    timed = backend.call("xbackend.measure.calls:rounds", executable, executable.put(*arrays))
                    where = _placement_text(executable.placement)
                    if options.drawings is not None:
                        _save(options.drawings / f"{name}.svg", executable.draw("svg"))
            except XBackendError as error:
                rows.append([name, "failed", "-", str(error).split("\n")[0]])
                well = False
                continue
            if first is None:
                first = (name, leaves)
            difference = workloads.relative_error(leaves, first[1])
            agrees = difference <= tolerance
            well = well and agrees
            said = "reference" if first[0] == name else f"{'agrees' if agrees else 'DIFFERS'} ({difference:.1e})"
            rows.append([name, said, _times(timed["seconds"]), where])
            if timed["foreign_cores"] > FOREIGN:
                warnings.append(
                    f"other processes kept {timed['foreign_cores']:.1f} cores busy while {name} was measured"
                )
    if first is not None:
        for number, leaf in enumerate(first[1]):
            say(f"result {number} on {first[0]}: {leaf.dtype}{list(leaf.shape)}")
            say(np.array2string(leaf, threshold=20, edgeitems=3))
    table(["backend", f"result against {first[0] if first else 'none'}", "median call (all rounds)", "placement"], rows)
    _conclude(tolerance, warnings, len(rows))
    return DONE if well else INCOMPLETE


def _times(seconds: Sequence[float]) -> str:
    """The median of the rounds of one process, and from which to which they reach."""
    low, middle, high = (1e6 * s for s in (min(seconds), median(seconds), max(seconds)))
    return f"{middle:.1f} us ({low:.1f} to {high:.1f})"


def _conclude(tolerance: float, warnings: Sequence[str], backends: int) -> None:
    """What the table means, and what not."""
    say(f"results agree where they differ by a relative {tolerance:.1e} at most; another one with --tolerance")
    if backends > 1:
        say("times are of one process each, and equal ones may differ by more: which is faster, xbackend compare says")
    for warning in warnings:
        say(f"warning: {warning}")


def _save(path: Path, drawing: str) -> None:
    """Write a drawing, its folder made if need be. Raises `UsageError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the drawing cannot be written to {path}: {error.strerror or error}") from None


def _only(bindings: DeviceMap, program: Program) -> dict[str, Any]:
    """The bindings of the names that the program uses; a name without one stays an error of compile."""
    return {n: bindings[n] for n in program.logical_devices if n in bindings}
