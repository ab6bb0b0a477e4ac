"""``run``: the user's own function on backends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from xbackend import workloads
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.cli import DONE, INCOMPLETE, options
from xbackend.cli.console import progress, say, width
from xbackend.cli.users import traced
from xbackend.errors import BackendUnavailable, UsageError, XBackendError
from xbackend.measure import matrix
from xbackend.measure.machine import load_warnings
from xbackend.program.binding import spread
from xbackend.program.structure import flatten
from xbackend.report import columns, text
from xbackend.results.schema import FOREIGN
from xbackend.wording import join
from xbackend.workers.remote import RemoteBackend

_TARGET = Parameter(help="a function in a file", metavar="FILE.py:FUNCTION")
_TOLERANCE = options.tolerance("largest relative difference that passes (default: by dtype, ops and longest axis)")
_VIRTUAL = options.option(options.count, "N", "CPU devices to make (default: as needed)")
_PLACEMENT = options.flag("list every op and transfer: where it was asked to run, and where it did")
_DRAWINGS = options.option(options.folder, "FOLDER", "save what each backend executed, as SVG")


def run(
    target: Annotated[str, _TARGET],
    /,
    *,
    inputs: options.Inputs = None,
    settings: options.Settings = None,
    devices: options.Bindings = None,
    seed: options.Seed = 0,
    backends: options.Backends = None,
    python: options.Python = None,
    virtual_devices: Annotated[int | None, _VIRTUAL] = None,
    tolerance: Annotated[float | None, _TOLERANCE] = None,
    drawings: Annotated[Path | None, _DRAWINGS] = None,
    placement: Annotated[bool, _PLACEMENT] = False,
) -> int:
    """Run a function on backends; print results' agreement, time and placement."""
    selected = matrix.runs(backends)
    program, arrays = traced(target, inputs, settings, seed)
    bindings, count = spread(program, devices, virtual_devices)
    passes = workloads.tolerance_of(program) if tolerance is None else tolerance
    rows: list[list[str]] = []
    placed: dict[str, list[str]] = {}  # what is said of a placement -> the backends
    reference, well, failed, warnings = None, True, list[str](), load_warnings()
    with progress() as shown:
        failures = matrix.ready(selected, shown)
        for name, _ in selected:
            shown(f"running on {name}")
            try:
                if registry.get(name).environment in failures:
                    raise BackendUnavailable(failures[registry.get(name).environment])
                with RemoteBackend(name, Settings(virtual_devices=count)) as backend:
                    executable = backend.compile(program, devices=bindings)
                    leaves, _ = flatten(executable(*arrays), np.asarray)
                    timed = backend.call("xbackend.measure.calls:rounds", executable, executable.put(*arrays))
                    where = executable.placement.listing() if placement else str(executable.placement)
                    if drawings is not None:
                        _save(drawings / f"{name}.svg", executable.draw("svg"))
            except XBackendError as error:
                rows.append([name, "failed", text.NOTHING])
                failed.append(f"failed: {name}: {_first_line(error)}")
                well = False
                continue
            reference = reference or (name, leaves)
            difference = workloads.relative_error(leaves, reference[1])
            agrees = difference <= passes
            well = well and agrees
            says = "reference" if reference[0] == name else f"{'agrees' if agrees else 'DIFFERS'} ({difference:.1e})"
            rows.append([name, says, _times(timed["seconds"])])
            placed.setdefault(where, []).append(name)
            if timed["foreign_cores"] > FOREIGN:
                warnings.append(
                    f"other processes kept {timed['foreign_cores']:.1f} cores busy while {name} was measured"
                )
    _say(rows, reference)
    where_on = [f"placement on {join(names)}: {where}" for where, names in placed.items()]
    _besides([*where_on, *failed], len(rows), passes, warnings)
    return DONE if well else INCOMPLETE


def _times(seconds: Sequence[float]) -> str:
    """The median of the rounds of one process, and from which to which they reach."""
    low, middle, high = (1e6 * s for s in (min(seconds), median(seconds), max(seconds)))
    return f"{middle:.1f} us ({low:.1f} to {high:.1f})"


def _first_line(error: XBackendError) -> str:
    return str(error).split("\n")[0]


def _say(rows: list[list[str]], reference: tuple[str, Any] | None) -> None:
    """What was computed, and the table."""
    name, leaves = reference or ("none", ())
    for number, leaf in enumerate(leaves):
        say(f"result {number} on {name}: {leaf.dtype}{list(leaf.shape)}")
        say(np.array2string(leaf, threshold=20, edgeitems=3))
    headers = ["backend", f"result against {name}", "median call (all rounds)"]
    for line in columns.lines(headers, [("", rows)], width() or columns.WIDTH, headers[2:]):
        say(line)


def _besides(said: Sequence[str], count: int, tolerance: float, warnings: Sequence[str]) -> None:
    """Where it ran, what failed, what the table means, and what not."""
    notes = [
        *said,
        f"results agree where they differ by a relative {tolerance:.1e} at most; another one with --tolerance",
    ]
    if count > 1:
        notes.append(
            "times are of one process each, and equal ones may differ by more: which is faster, xbackend compare says"
        )
    for note in [*notes, *(f"warning: {warning}" for warning in warnings)]:
        for part in note.split("\n"):
            for line in columns.wrapped(part, width(), "  "):
                say(line)


def _save(path: Path, drawing: str) -> None:
    """Write a drawing, its folder made if need be. Raises `UsageError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the drawing cannot be written to {path}: {error.strerror or error}") from None
