"""A workload's expected result, and the largest error that passes.

The oracle is the workload's own, or its program on NumPy in float64. Where the workload gives no tolerance, it is
`FACTOR` times the error that no backend can be blamed for (docs/measurement.md, "What is called right"); above
`DETERMINED` the result is not determined in this precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xbackend.analysis.comparison import ORACLE
from xbackend.api.tracing.trace import trace
from xbackend.backends import registry
from xbackend.backends.contract import Backend
from xbackend.devices import Device, DeviceMap, is_device
from xbackend.errors import ArgumentError, DeviceUnavailable, WorkloadError, XBackendError
from xbackend.program.binding import bound
from xbackend.program.precision import widened
from xbackend.program.program import Program
from xbackend.program.structure import flatten
from xbackend.wording import counted
from xbackend.workers import opening
from xbackend.workloads.agreement import DETERMINED, relative_error
from xbackend.workloads.workload import Workload

DIRECTIONS = 3  # directions in which a gradient is compared with differences
CLOSE = 1e-4  # relative: the accuracy of central differences of a smooth function
SMALLEST = 1e-100  # of inputs: smaller ones have no usable differences
UNDERFLOW = float(np.finfo(np.float64).tiny)  # smaller numbers lose digits, or are zero
FACTOR = 100.0  # of one rounding: pairwise sums of 10^9 terms lose 30, elementary functions and factorisations several
STEPS = 32  # units in the last place between the two inputs whose results are compared


@dataclass(frozen=True, eq=False)
class Expected:
    """The ``expected`` arrays of a workload, as a flat list, the largest relative error that passes, and how that is
    ``derived``.

    ``undetermined``: why the program's precision is too low for a verdict. ``allow_nan``: whether NaN among them is
    right, as a workload's own oracle says.
    """

    expected: Sequence[np.ndarray] = ()
    tolerance: float = 0.0
    derived: str = ""
    undetermined: str = ""
    allow_nan: bool = False


def expected(
    workload: Workload,
    program: Program,
    inputs: Sequence[np.ndarray],
    parameters: Mapping[str, Any],
    *,
    gradient: bool = False,
) -> Expected:
    """The expected results of ``program``, the workload traced with these inputs.

    A ``gradient`` is NumPy's, compared with differences of the oracle's values.

    Raises `WorkloadError` where these disagree or the oracle's shapes differ, `ArgumentError` where the workload has no
    oracle and the program cannot be computed in float64.
    """
    own = None if gradient else workload.expected(inputs, **parameters)
    values = in_float64(workload.name, program, inputs) if own is None else own
    if gradient:
        alone = trace(workload.traced(parameters), *inputs)

        def value(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            right = workload.expected(arrays, **parameters)
            return in_float64(workload.name, alone, arrays) if right is None else right

        _check_gradient(workload, value, wide(inputs), values[1:])
    declared = [program.values[i].shape for i in program.outputs]
    if [np.shape(value) for value in values] != declared:
        shapes = [", ".join(map(str, each)) or "none" for each in ([np.shape(v) for v in values], declared)]
        raise WorkloadError(
            f"workload {workload.name}: its oracle returns the shapes {shapes[0]}, it itself {shapes[1]}"
        )
    said = workload.passes(**parameters)
    if said is not None:
        return Expected(values, said, "said by the workload", allow_nan=own is not None)
    right = values if own is None else None
    return Expected(values, *_derived(workload.name, program, inputs, right), own is not None)


def of_program(program: Program, inputs: Sequence[np.ndarray]) -> Expected:
    """The expected results of a program without a workload. Raises `ArgumentError` as `expected` does."""
    values = in_float64(program.name, program, inputs)
    return Expected(values, *_derived(program.name, program, inputs, values))


def _derived(
    name: str, program: Program, inputs: Sequence[np.ndarray], right: list[np.ndarray] | None
) -> tuple[float, str, str]:
    """The tolerance (a relative error), how it is derived, and why it is too large for a verdict (else empty)."""
    # From NumPy in float64 even with another oracle: a wrong one would make everything pass.
    floating = [program.values[i].dtype for i in program.outputs if program.values[i].dtype.is_floating]
    if not floating:
        return 0.0, "no output is floating-point", ""
    causes = {"a unit in the last place": max(float(np.finfo(dtype.value).eps) for dtype in floating)}
    try:
        right = in_float64(name, program, inputs) if right is None else right
    except XBackendError as error:  # it has an oracle of its own, or would have failed before
        words = f"{FACTOR:g} units in the last place, as NumPy does not compute it ({error})"
        return FACTOR * max(causes.values()), words, ""
    try:
        ends = [[in_float64(name, program, one) for one in pair] for pair in _moved(inputs)]
        moved = max((_apart(one, other, right) for one, other in ends), default=0.0) / STEPS
    except XBackendError:  # such as a nearly singular matrix
        moved = math.inf
    causes["how far the result moves when each input changes by a unit in the last place"] = moved
    if any(node.dtype == "float32" for node in program.values):
        try:
            lost = relative_error(on_numpy(widened(program, rounded=True), wide(inputs)), right)
        except XBackendError:
            lost = math.inf
        causes["what is lost where the result of each op is rounded to float32"] = lost
    finite = {cause: error for cause, error in causes.items() if np.isfinite(error)}
    cause = max(finite, key=lambda name: finite[name])
    passes, derived = FACTOR * finite[cause], f"{FACTOR:g} times {cause}, {finite[cause]:.1e}"
    beyond = [f"{cause} is beyond all numbers" for cause in causes if cause not in finite]
    if passes > DETERMINED:
        beyond.append(f"{passes:.1e} would have to pass, {derived}, and above {DETERMINED:g} there is no verdict")
    return passes, derived, "; ".join(beyond)


def _apart(one: Sequence[np.ndarray], other: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    """The largest difference of two results over the largest element of an array of the right one."""
    found = 0.0  # also for elements that are not finite: moved inputs may leave a function's domain
    for a, b, r in zip(one, other, right, strict=True):
        with np.errstate(invalid="ignore"):
            difference = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))
        finite = np.isfinite(difference)
        scale = np.abs(r[np.isfinite(r)]).max(initial=0.0)
        found = max(found, float(difference[finite].max(initial=0.0)) / float(scale or 1.0))
    return found


def _check_gradient(
    workload: Workload,
    value: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
    inputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
) -> None:
    """Compare gradients with central differences of the value in seeded directions. Raises `WorkloadError`.

    The step is eps^(1/3) of the largest input, which makes the errors of the difference and of its rounding alike
    (Press et al., Numerical Recipes, section 5.7).
    """
    rng, positions = np.random.default_rng(0), [workload.arguments.index(name) for name in workload.gradient]
    unit = float(np.finfo(np.float64).eps)
    for _ in range(DIRECTIONS):
        way = {i: rng.standard_normal(inputs[i].shape) for i in positions}
        largest = max((float(np.abs(inputs[i]).max(initial=0.0)) for i in positions), default=0.0)
        step = unit ** (1 / 3) * (largest if largest > SMALLEST else 1.0)
        slopes, largest = list[float](), 0.0
        for times in (1, 2):  # their difference estimates the truncation error
            ends = [
                [a + sign * times * step * way[i] if i in way else a for i, a in enumerate(inputs)] for sign in (1, -1)
            ]
            up, down = (float(np.asarray(value(end)[0])) for end in ends)
            slopes.append((up - down) / (2 * times * step))
            largest = max(largest, abs(up), abs(down))
        slope, other = slopes
        along = float(sum(np.vdot(g, way[i]) for g, i in zip(gradients, positions, strict=True)))
        rounded = unit * largest + UNDERFLOW
        allowed = CLOSE * max(abs(slope), abs(along)) + FACTOR * rounded / step + 2 * abs(slope - other)
        if not abs(slope - along) <= allowed:
            raise WorkloadError(
                f"the gradient of workload {workload.name} is {along:.6g} along a direction in which its value changes "
                f"by {slope:.6g}: it is no gradient there (a corner, a jump, or noise)"
            )


def _moved(inputs: Sequence[np.ndarray]) -> Iterator[list[list[np.ndarray]]]:
    """The inputs moved up or down by a seeded draw, by one unit in the last place and by `STEPS` more."""
    # Two ends: a jump at the number itself (x > 0 at 0) is not between them. With every other draw reversed, too:
    # moves that cancel in one may add up in the other.
    if not any(array.dtype.kind == "f" for array in inputs):
        return
    ends = np.cumsum([array.size for array in inputs])
    signs = np.where(np.random.default_rng(0).random(ends[-1]) < 0.5, -1.0, 1.0)
    for each in (signs, signs * np.where(np.arange(signs.size) % 2, -1.0, 1.0)):
        ways = [*zip(inputs, np.split(each, ends[:-1]), strict=True)]
        yield [[_steps(array, way.reshape(array.shape), count) for array, way in ways] for count in (1, 1 + STEPS)]


def _steps(array: np.ndarray, signs: np.ndarray, count: int) -> np.ndarray:
    """The array, moved by so many units in the last place if it is floating-point."""
    if array.dtype.kind != "f":
        return array
    return np.asarray(array + (count * signs * np.spacing(np.abs(array))).astype(array.dtype), array.dtype)


def wide(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The inputs, floating-point ones in float64."""
    return [array.astype(np.float64) if array.dtype.kind == "f" else array for array in inputs]


def in_float64(name: str, program: Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """NumPy's results of the program in float64. Raises `ArgumentError`."""
    try:
        return on_numpy(widened(program), wide(inputs))
    except XBackendError as error:
        raise ArgumentError(f"{name} has no oracle in float64 by itself, give it one of its own: {error}") from error


def on_numpy(program: Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    with opening.open(ORACLE) as backend:
        return flatten(backend.compile(program)(*inputs), np.asarray)[0]


def bind(program: Program, backend: Backend, devices: int, asked: DeviceMap, kinds: Sequence[str] = ()) -> DeviceMap:
    """The program's devices, `bound` as ``asked``, else to the backend's `first_devices`. A framework that has no
    accelerators computes on the CPU, whatever the kinds."""
    if not all(map(is_device, asked)):  # nothing is spread
        return bound(program, asked, ())
    return bound(program, asked, first_devices(backend, devices, kinds))


def first_devices(backend: Backend, count: int, kinds: Sequence[str] = ()) -> list[Device]:
    """The first ``count`` devices of these kinds, those of the first kind first; without kinds, or on a backend that
    never has accelerators, of the default device's kind. Raises `DeviceUnavailable` where there are fewer."""
    wanted = kinds if kinds and registry.get(backend.name).accelerated else (backend.default_device.kind,)
    pool = [device for kind in wanted for device in backend.devices if device.kind == kind][:count]
    if len(pool) < count:
        there, own = counted(len(pool), "device") if pool else "no device", ", ".join(map(str, backend.devices))
        beside = f"; with --devices {','.join([*wanted, 'cpu', str(count)])} the CPU is taken, too"
        raise DeviceUnavailable(
            f"backend {backend.name} has {there} of kind {' or '.join(wanted)} ({own}), "
            f"{count} {'was' if count == 1 else 'were'} asked for{'' if 'cpu' in wanted else beside}"
            f"{'' if pool else '; xbackend doctor --gpu says what is missing'}"
        )
    return pool
