"""The smallest program whose result differs on a backend, and the script that shows it.

`agreement.verified` says whether a result differs. A smaller program counts if its result differs from NumPy's in
float64 by more than `oracle.of_program` lets pass, and in the same way: by numbers, or by infinities and NaN.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from xbackend.backends import registry
from xbackend.bring.source.differing import Differing, in_framework, in_xbackend
from xbackend.bring.source.names import identifier
from xbackend.bring.source.script import Source
from xbackend.devices import DeviceMap
from xbackend.errors import UnsupportedOperation, WorkerDied, WorkerTimeout, XBackendError
from xbackend.measure import matrix, oracle
from xbackend.measure.matrix import BackendChoice
from xbackend.program.binding import spread
from xbackend.program.program import Program
from xbackend.program.smaller import Example, Tried, smallest
from xbackend.program.structure import flatten
from xbackend.results.shrunk import Shrunk
from xbackend.wording import counted
from xbackend.workers.protocol import LIMIT
from xbackend.workers.remote import RemoteBackend, environment_of
from xbackend.workloads.agreement import Agreement, differences, relative_error, verified

SECONDS = 60.0  # of shrinking on one backend
SHORTEST = 10.0  # seconds that one try may take, or so many times what the first took
TIMES = 5.0
EACH = 2.0  # seconds between two lines of progress
SCRIPT = 300.0  # seconds that a written script may take


@dataclass
class Judge:
    """Says of programs whether they differ on a backend, whose process is opened again when a try ended it.

    Args:
        devices: the bindings of the program's devices.
        tolerance: the relative error that passes; `None` for the one that is derived for each program.
        open: opens the backend's process.
    """

    devices: DeviceMap | None
    tolerance: float | None
    open: Callable[[], RemoteBackend]
    ended: int = 0
    kind: str = ""  # how the first program differed
    worst: tuple[int, ...] = ()
    found: Differing | None = None  # the last one that differed
    agreed: str = ""  # why the last one does not count
    _backend: RemoteBackend | None = None
    _limit: float | None = LIMIT  # seconds of one request

    def results(self, example: Example) -> list[np.ndarray]:
        """The backend's results. Raises `XBackendError`."""
        if self._backend is None:
            self._backend = self.open()
            self._backend.worker.limit = self._limit
        try:
            bindings, _ = spread(example.program, self.devices)
            executable = self._backend.compile(example.program, devices=bindings)
            leaves, _ = flatten(executable(*example.arrays), np.asarray)
        except (WorkerDied, WorkerTimeout):
            self.ended += 1
            self.close()
            raise
        return leaves

    def differs(self, example: Example) -> bool:
        """Whether its result differs, in the same way as the first program's. A try that fails does not count."""
        self.agreed = ""
        try:
            with np.errstate(all="ignore"):
                want = oracle.in_float64(example.program.name, example.program, oracle.wide(example.arrays))
                got = self.results(example)
                if not relative_error(got, want) > (self.tolerance or 0.0):
                    self.agreed = "its result agrees"
                    return False
                right = oracle.of_program(example.program, example.arrays)
        except XBackendError as error:
            self.agreed = str(error).split("\n", 1)[0]
            return False
        if self.tolerance is not None:
            right = replace(right, tolerance=self.tolerance, undetermined="")
        said = verified(got, right.expected, right.tolerance, undetermined=right.undetermined, allow_nan=True)
        if said.agreement is not Agreement.DIFFERS:
            of = "" if said.error is None else f": {said.error:.1e}, and {right.tolerance:.1e} passes"
            self.agreed = said.reason or f"its relative error is allowed{of}"
            return False
        kind, worst = _how(got, right.expected)
        if self.kind and kind != self.kind:
            self.agreed = f"it differs by {kind}, and not by {self.kind}"
            return False
        self.kind, self.worst = kind, worst
        allowed = [right.tolerance * (_scale(one) or 1.0) for one in right.expected]
        shown = example.program, example.arrays, right.expected, got, allowed
        self.found = Differing(*shown, versions={}, backend="")
        return True

    def described(self) -> Mapping[str, str]:
        """The versions that the backend names."""
        return {} if self._backend is None else self._backend.describe().versions

    def limited(self, seconds: float) -> None:
        """Let one request take so long from now on."""
        self._limit = seconds
        if self._backend is not None:
            self._backend.worker.limit = seconds

    def close(self) -> None:
        if self._backend is not None:
            backend, self._backend = self._backend, None
            backend.close()


def _how(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> tuple[str, tuple[int, ...]]:
    """How results differ, and the index of the worst element of the worst one."""
    errors = [relative_error(one, right) for one, right in zip(got, want, strict=True)]
    number = max(range(len(errors)), key=errors.__getitem__)
    one, right = np.asarray(got[number]), np.asarray(want[number])
    if one.shape != right.shape:
        return "shapes", ()
    apart = differences(one, right)
    apart = np.where(np.isnan(apart), np.inf, apart)
    worst = tuple(map(int, np.unravel_index(int(np.argmax(apart)), apart.shape))) if apart.size else ()
    return "numbers" if np.isfinite(apart).all() else "infinities and NaN", worst


def _scale(array: np.ndarray) -> float:
    finite = np.abs(np.asarray(array, np.float64))
    return float(finite[np.isfinite(finite)].max(initial=0.0))


def shrink(
    run: BackendChoice,
    program: Program,
    arrays: Sequence[np.ndarray],
    folder: Path,
    *,
    devices: DeviceMap | None = None,
    count: int = 1,
    tolerance: float | None = None,
    seconds: float = SECONDS,
    on_progress: Callable[[str], None] = lambda text: None,
) -> Shrunk:
    """Reduce a program that differs on a backend, and write the script that shows it into the folder.

    Raises `UsageError` where the script cannot be written.
    """
    name = run[0]
    judge = Judge(devices, tolerance, lambda: matrix.opened(run, {}, count))
    first = Example(program, tuple(arrays))
    try:
        on_progress(f"shrinking on {name}: the result again")
        begun = time.monotonic()
        if not (judge.differs(first) and judge.differs(first)):
            return Shrunk(backend=name, reason=f"not reproducible: computed again, {judge.agreed} (NumPy in float64)")
        judge.limited(max(SHORTEST, TIMES * (time.monotonic() - begun) / 2))
        tried = _searched(judge, first, seconds, lambda text: on_progress(f"shrinking on {name}: {text}"))
        judge.close()
        if not judge.differs(tried.example) or judge.found is None:
            return Shrunk(backend=name, reason=f"not reproducible: in another process, {judge.agreed}")
        found = replace(judge.found, versions=judge.described(), backend=name)
    finally:
        judge.close()
    on_progress(f"shrinking on {name}: the script")
    path, language, notes = _written(found, run, folder, devices, count)
    return Shrunk(
        backend=name,
        path=str(path),
        language=language,
        ops=tried.example.ops,
        ops_before=first.ops,
        numbers=tried.example.elements,
        numbers_before=first.elements,
        tried=tried.count,
        ended=judge.ended,
        finished=tried.finished,
        notes=notes,
    )


def _searched(judge: Judge, first: Example, seconds: float, on_progress: Callable[[str], None]) -> Tried:
    begun = said = time.monotonic()

    def tell(number: int, example: Example) -> None:
        nonlocal said
        if time.monotonic() - said < EACH:
            return
        said = time.monotonic()
        size = f"{counted(example.ops, 'op')}, {counted(example.elements, 'number')}"
        on_progress(f"{size} after {number} tries ({said - begun:.0f} of {seconds:g} s)")

    return smallest(
        first,
        judge.differs,
        lambda program, arrays: oracle.on_numpy(program, list(arrays)),
        goes_on=lambda: time.monotonic() - begun < seconds,
        on_try=tell,
        worst=lambda: judge.worst,
    )


def _written(
    found: Differing, run: BackendChoice, folder: Path, devices: DeviceMap | None, count: int
) -> tuple[Path, str, list[str]]:
    """The script's path, its language, and notes about it. It is written for the framework alone if it then shows the
    difference, else with xbackend."""
    alone, notes = registry.get(run[0]).alone, list[str]()
    if alone is None:
        notes.append(f"no script of the framework alone is written for {run[0]}, so that it is one of xbackend")
    else:
        try:
            source = in_framework(found, alone.framework, alone.written, alone.before)
        except UnsupportedOperation as error:
            notes.append(f"it is a script of xbackend: {error}")
        else:
            path = _saved(source, found, folder, run[0])
            shows = _shows(environment_of(run[0], run[1] or None).python, path)
            if not shows:
                return path, alone.framework, []
            for each in (path, path.with_suffix(".npz")):
                each.unlink(missing_ok=True)
            notes.append(
                f"a script of {alone.framework} alone does not show it ({shows}), so that it is one of xbackend: the "
                "difference may be of how xbackend writes the program for the framework"
            )
    bound = {name: str(device) for name, device in spread(found.program, devices)[0].items()}
    path = _saved(in_xbackend(found, bound, count), found, folder, run[0])
    shows = _shows(Path(sys.executable), path)
    if shows:
        notes.append(f"run again, the script does not show it: {shows}")
    return path, "xbackend", notes


def _saved(source: Source, found: Differing, folder: Path, backend: str) -> Path:
    """Write the script under a name that is free."""
    folder.mkdir(parents=True, exist_ok=True)
    of = re.sub(r"\W+", "-", backend).strip("-")
    name = f"{identifier(found.program.name)}-{of}"
    path, number = folder / f"{name}.py", 2
    while path.exists():
        path, number = folder / f"{name}-{number}.py", number + 1
    return source.write(path)[0]


def _shows(python: Path, script: Path) -> str:
    """Runs a script in a fresh process: empty if it ends because the numbers differ, else why not."""
    command = [str(python), script.name]
    try:
        done = subprocess.run(
            command, cwd=script.parent, capture_output=True, text=True, errors="replace", timeout=SCRIPT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it was ended after {SCRIPT:g} s"
    if done.returncode == 0:
        return "its numbers agree"
    if done.returncode == 1 and "Not equal to tolerance" in done.stderr:
        return ""
    last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
    return last[0]
