"""``run``: the user's own function on backends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from xbackend.cli import DONE, INCOMPLETE, graphs, options, output
from xbackend.cli.console import progress, say, say_lines, width
from xbackend.cli.output import Output
from xbackend.cli.users import Traced, traced
from xbackend.cores import FOREIGN
from xbackend.devices import DeviceMap
from xbackend.errors import ArgumentError, UsageError, XBackendError
from xbackend.files import check_place, write_whole
from xbackend.measure import matrix, shrinking, variables
from xbackend.measure.machine import load_warnings
from xbackend.measure.oracle import Expected
from xbackend.program.binding import spread
from xbackend.program.structure import flatten
from xbackend.report.said import text
from xbackend.report.written import columns
from xbackend.results.shrunk import Shrunk
from xbackend.wording import counted, grouped, join
from xbackend.wording import placed as placed_of
from xbackend.workloads.agreement import DOUBTFUL, Agreement, Verified, most, verified

_TARGET = Parameter(help="a function in a file", metavar="FILE.py:FUNCTION")
_TOLERANCE = options.tolerance("largest relative difference that passes (default: what docs/workloads.md says)")
_DEVICES = options.option(options.count, "N", "how many CPU devices there are (default: as needed)")
_PLACEMENT = options.flag("list every op and transfer: where it was asked to run, and where it did")
_FAILED = "failed"
_WITHOUT = (Agreement.UNDETERMINED, Agreement.UNVERIFIED)
_WORDS = {agreement: str(agreement) for agreement in Agreement} | {
    Agreement.AGREES: "agree with the oracle",
    Agreement.DIFFERS: "DIFFER from it by more than roundings make",
}
_SHRINK = options.flag(
    "where a result differs, look for the smallest program whose result still does, and write it as a script of that "
    "framework alone, for its issue tracker"
)
_SECONDS = options.option(options.duration("seconds"), "SECONDS", "how long --shrink looks on each backend")
_SCRIPTS = options.option(options.folder, "FOLDER", "where --shrink writes its scripts")
_DRAWINGS = options.option(options.folder, "FOLDER", "save what each backend executed, as SVG")


@Parameter(name="*")
@dataclass(frozen=True)
class Shrinks:
    """Whether programs that differ are made smaller, for how long, and where their scripts go."""

    shrink: Annotated[bool, _SHRINK] = False
    shrink_seconds: Annotated[float, _SECONDS] = shrinking.SECONDS
    shrink_to: Annotated[Path, _SCRIPTS] = Path("shrunk")


_NONE = Shrinks()


def run(
    target: Annotated[str, _TARGET],
    /,
    *,
    inputs: options.Inputs = None,
    graph: graphs.GraphChoice = graphs.NONE,
    settings: options.Settings = None,
    devices_map: options.DevicesMap = None,
    seed: options.Seed = 0,
    backends: options.Backends = None,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    devices: Annotated[int | None, _DEVICES] = None,
    tolerance: Annotated[float | None, _TOLERANCE] = None,
    allow_nan: options.AllowNaN = False,
    drawings: Annotated[Path | None, _DRAWINGS] = None,
    placement: Annotated[bool, _PLACEMENT] = False,
    shrinks: Shrinks = _NONE,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """Run a function on backends; print results' agreement with the oracle, time and placement."""
    if shrinks.shrink:
        check_place(shrinks.shrink_to, f"scripts cannot be written to {shrinks.shrink_to}")
    selected = matrix.runs(backends)
    made = traced(target, inputs, settings, seed, graph)
    bindings, count = spread(made.program, devices_map, devices)
    right = _right(made, tolerance)
    passing = None if isinstance(right, str) or right.undetermined else right.tolerance
    rows: list[output.Ran] = []
    found: dict[str, Verified] = {}
    warnings = [*made.apart(right), *load_warnings(), *variables.warnings()]
    with progress() as shown:
        failures = matrix.ready(selected, shown)
        for (name, environment), place in placed_of(selected):
            shown(f"running on {name}{place}")
            try:
                with matrix.opened((name, environment), failures, count) as backend:
                    executable = backend.compile(made.program, devices=bindings)
                    leaves, timed, where = _called(backend, executable, made, placement)
                    if drawings is not None:
                        _save(drawings / f"{name}.svg", executable.draw("svg"))
            except XBackendError as error:
                rows.append(output.Ran(backend=name, result=_FAILED, reason=str(error).split("\n")[0]))
                continue
            found[name] = _verified(leaves, right, allow_nan)
            rows.append(output.ran(name, found[name], passing, timed["seconds"], where))
            if timed["foreign_cores"] > FOREIGN:
                others = f"other processes kept {timed['foreign_cores']:.1f} cores busy"
                warnings.append(f"{others} while {name} was measured")
        differ = [one for one in selected if one[0] in found and found[one[0]].agreement is Agreement.DIFFERS]
        asked = differ if shrinks.shrink else []
        smaller = _smaller(asked, made, tolerance, shrinks, devices=(bindings, count), shown=shown)
    failed = {row.backend: row.reason for row in rows if row.result == _FAILED}
    first = answer(found, failed, right if isinstance(right, str) else "")
    _say(first, [*map(_cells, rows)], right)
    _besides([*_reasons(rows, found, right)], len(rows), right, warnings)
    _say_smaller(smaller, shrinks)
    files = [one.path for one in smaller if one.path]
    code = INCOMPLETE if failed or any(v.agreement is not Agreement.AGREES for v in found.values()) else DONE
    return output.Run(exit_code=code, answer=first, rows=rows, notes=warnings, files=files, shrunk=smaller)


def _say_smaller(smaller: Sequence[Any], shrinks: Shrinks) -> None:
    for line in _shrunk(smaller) if shrinks.shrink else ():
        say_lines(columns.wrapped(line, width()))


def _called(backend: Any, executable: Any, made: Traced, listed: bool) -> tuple[list[np.ndarray], dict[str, Any], str]:
    """The results of a call, the seconds of further calls, and where they ran, ``listed`` op by op."""
    leaves, _ = flatten(executable(*made.arrays), np.asarray)
    timed = backend.call("xbackend.measure.loop:look", executable, executable.put(*made.arrays))
    return leaves, timed, executable.placement.listing() if listed else str(executable.placement)


def _smaller(
    differ: Sequence[matrix.BackendChoice],
    made: Traced,
    tolerance: float | None,
    shrinks: Shrinks,
    *,
    devices: tuple[DeviceMap, int],
    shown: Callable[[str], None],
) -> list[Shrunk]:
    passes = made.workload.passes(**made.parameters) if tolerance is None else tolerance
    return [
        shrinking.shrink(
            *(one, made.program, made.arrays, shrinks.shrink_to),
            devices=devices[0],
            count=devices[1],
            tolerance=passes,
            seconds=shrinks.shrink_seconds,
            on_progress=shown,
        )
        for one in differ
    ]


def _reasons(rows: Sequence[output.Ran], found: Mapping[str, Verified], right: Expected | str) -> Iterator[str]:
    """Where it ran, what failed, and why results are not verified."""
    placed = grouped((row.placement, row.backend) for row in rows if row.result != _FAILED)
    yield from (f"placement on {join(names)}: {where}" for where, names in placed.items())
    yield from (f"failed: {row.backend}: {row.reason}" for row in rows if row.result == _FAILED)
    if not isinstance(right, str):
        yield from dict.fromkeys(
            f"{v.agreement}: {v.reason}" for v in found.values() if v.agreement in _WITHOUT or v.error is None
        )


def _right(made: Traced, tolerance: float | None) -> Expected | str:
    """The expected results, with the tolerance that was asked for; or why there is no oracle."""
    try:
        right = made.expected()
    except ArgumentError as error:
        return str(error)
    if tolerance is None:
        return right
    return replace(right, tolerance=tolerance, derived="as asked for", undetermined="")


def _verified(leaves: Sequence[np.ndarray], right: Expected | str, allow_nan: bool) -> Verified:
    if isinstance(right, str):
        return Verified(Agreement.UNVERIFIED, None, right)
    allowed = allow_nan or right.allow_nan
    return verified(leaves, right.expected, right.tolerance, undetermined=right.undetermined, allow_nan=allowed)


def answer(found: Mapping[str, Verified], failed: Collection[str], without: str = "") -> str:
    """The first line: which results are right. ``without`` says why there is no oracle."""
    groups = grouped((one.agreement, name) for name, one in found.items())
    said = [f"{_WORDS[agreement]}: {join(groups[agreement])}" for agreement in Agreement if agreement in groups]
    if failed:
        said.append(f"failed: {join(failed)}")
    if without:
        said.insert(0, f"there is no oracle, so that no result is called right: {without}")
    if most(len(groups.get(Agreement.DIFFERS, ())), len(found)):
        said.append(f"these are most, {DOUBTFUL}")
    return "; ".join(said)


def _shrunk(smaller: Sequence[Shrunk]) -> Iterator[str]:
    """The outcome of making each program smaller."""
    if not smaller:
        yield "nothing is made smaller: no result differs by more than is allowed"
    for one in smaller:
        if one.reason:
            yield f"not made smaller on {one.backend}: {one.reason}"
            continue
        yield (
            f"written for {one.backend}: {one.path}, a script of {one.language}: {one.ops} of "
            f"{counted(one.ops_before, 'op')}, {one.numbers} of {counted(one.numbers_before, 'number')}; "
            f"{counted(one.tried, 'program')} tried"
            + (f", {one.ended} of them ended the process or took too long" if one.ended else "")
            + ("" if one.finished else ", until the time was over: more with --shrink-seconds")
        )
        yield from one.notes


def _cells(row: output.Ran) -> list[str]:
    """The verdict on a result, its relative error beside the largest that passes, and the median of the rounds of one
    process, with the smallest and the largest."""
    if row.result == _FAILED:
        return [row.backend, _FAILED, text.NOTHING, text.NOTHING]
    says = "DIFFERS" if row.result == str(Agreement.DIFFERS) else row.result
    error, passes = (text.NOTHING if n is None else f"{n:.1e}" for n in (row.relative_error, row.tolerance))
    low, middle, high = (1e6 * (s or 0.0) for s in (row.seconds_least, row.seconds, row.seconds_most))
    return [row.backend, says, f"{error} / {passes}", f"{middle:.1f} us ({low:.1f} to {high:.1f})"]


def _say(first: str, rows: list[list[str]], right: Expected | str) -> None:
    say_lines(columns.wrapped(first, width()))
    for number, leaf in enumerate([] if isinstance(right, str) else right.expected):
        say(f"result {number} of the oracle: {leaf.dtype}{list(leaf.shape)}")
        say(np.array2string(leaf, threshold=20, edgeitems=3))
    headers = ["backend", "result", "relative error / passes", "median call (all rounds)"]
    say_lines(columns.lines(headers, [("", rows)], width() or columns.WIDTH, headers[2:]))


def _besides(said: Sequence[str], count: int, right: Expected | str, warnings: Sequence[str]) -> None:
    """Notes below the table: where it ran, what failed, and how to read the table."""
    notes = list(said)
    if not isinstance(right, str) and not right.undetermined:
        notes.append(
            f"a result agrees where it is within a relative {right.tolerance:.1e} of the oracle, NumPy in float64 or "
            f"the workload's own ({right.derived}); another one with --tolerance"
        )
    if count > 1:
        notes.append(
            "times are of one process each, and equal ones may differ by more: which is faster, xbackend compare says"
        )
    for note in [*notes, *(f"warning: {warning}" for warning in warnings)]:
        for part in note.split("\n"):
            say_lines(columns.wrapped(part, width(), "  "))


def _save(path: Path, drawing: str) -> None:
    """Write a drawing, its folder made if need be. Raises `UsageError`."""
    try:
        write_whole(path, drawing.encode())
    except OSError as error:
        raise UsageError(f"the drawing cannot be written to {path}: {error.strerror or error}") from None
