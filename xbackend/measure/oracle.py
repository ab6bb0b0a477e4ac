"""What a workload's result has to be, and how far a right one may be from it.

The oracle is the workload's own, or its function on NumPy in float64. Where the workload does not say what passes, two
things are measured that no backend can be blamed for, and `FACTOR` times the larger one passes: how far the oracle's
result moves when each input changes by one unit in the last place, and what NumPy itself loses in the dtype of the
workload. (Higham, Accuracy and Stability of Numerical Algorithms, section 1.5 and 1.6: forward and backward error.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xbackend.analysis.comparison import ORACLE
from xbackend.api.trace import trace
from xbackend.backends.contract import Backend
from xbackend.devices import DeviceMap
from xbackend.errors import ArgumentError, DeviceUnavailable, WorkloadError, XBackendError
from xbackend.program.program import Program
from xbackend.program.structure import flatten
from xbackend.workers import opening
from xbackend.workloads.agreement import relative_error
from xbackend.workloads.workload import Workload

DIRECTIONS = 3  # in which a gradient is compared with differences
CLOSE = 1e-4  # relative: what central differences of a smooth function are good for
SMALLEST = 1e-100  # of inputs: the differences of smaller ones are no numbers any more
UNDERFLOW = float(np.finfo(np.float64).tiny)  # what is smaller loses digits, or is zero
FACTOR = 100.0  # other orders of summation and other elementary functions lose more than NumPy's


@dataclass(frozen=True)
class Expected:
    """The arrays that a workload returns, as a flat list, the largest relative error that passes, and why that one."""

    values: list[np.ndarray]
    tolerance: float
    derived: str


def expected(
    workload: Workload,
    program: Program,
    inputs: Sequence[np.ndarray],
    parameters: Mapping[str, Any],
    *,
    gradient: bool = False,
    devices: int = 1,
) -> Expected:
    """What the ``program``, which is the workload traced with these inputs, has to return.

    ``devices`` are those that NumPy has. A ``gradient`` is NumPy's, compared with differences of the oracle's values.
    Raises `WorkloadError` where it is not theirs or the oracle's results have other shapes, `ArgumentError` where there
    is none of its own and the function cannot be computed in float64.
    """

    def on_numpy(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return _in_float64(workload.name, workload.traced(parameters, gradient), arrays, devices)

    def value(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        own = workload.expected(arrays, **parameters)
        return _in_float64(workload.name, workload.traced(parameters), arrays, devices) if own is None else own

    values = (on_numpy if gradient else value)(inputs)
    if gradient:
        _check_gradient(workload, value, wide(inputs), values[1:])
    declared = [program.nodes[i].shape for i in program.outputs]
    if [np.shape(value) for value in values] != declared:
        shapes = [", ".join(map(str, each)) or "none" for each in ([np.shape(v) for v in values], declared)]
        raise WorkloadError(
            f"workload {workload.name}: its oracle returns the shapes {shapes[0]}, it itself {shapes[1]}"
        )
    said = workload.passes(**parameters)
    if said is not None:
        return Expected(values, said, "said by the workload")
    return Expected(values, *_derived(program, inputs, on_numpy, devices))


def _derived(
    program: Program,
    inputs: Sequence[np.ndarray],
    wide_on_numpy: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
    devices: int,
) -> tuple[float, str]:
    """The largest relative error that passes, and how that is known.

    Of NumPy in float64 also where there is another oracle: one that is wrong would make everything pass.
    """
    floating = [program.nodes[i].dtype for i in program.outputs if program.nodes[i].dtype.is_floating]
    if not floating:
        return 0.0, "no output is floating-point"
    causes = {"a unit in the last place": max(float(np.finfo(dtype.value).eps) for dtype in floating)}
    try:
        right = wide_on_numpy(inputs)
        moved = max(relative_error(wide_on_numpy(one), right) for one in _moved(inputs))
        narrow = "float32" if any(node.dtype == "float32" for node in program.nodes) else "float64"
        causes["how far the result moves when each input changes by a unit in the last place"] = moved
        causes[f"what NumPy loses in {narrow}"] = relative_error(_on_numpy(program, inputs, devices), right)
    except XBackendError as error:  # there is an oracle of its own, or it would have failed before
        words = f"{FACTOR:g} units in the last place, as NumPy does not compute it ({error})"
        return FACTOR * max(causes.values()), words
    finite = {cause: error for cause, error in causes.items() if np.isfinite(error)}
    cause = max(finite, key=lambda name: finite[name])
    return FACTOR * finite[cause], f"{FACTOR:g} times {cause}, {finite[cause]:.1e}"


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
        for times in (1, 2):  # what they differ by is what the difference leaves out
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


def _moved(inputs: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """The inputs with each floating-point number one unit in the last place away from 0, and with each up or down by a
    seeded draw: what goes one way in one of them may cancel in the other."""
    rng = np.random.default_rng(0)
    for drawn in (False, True):
        moved = []
        for array in inputs:
            if array.dtype.kind != "f":
                moved.append(array)
                continue
            sign = np.where(rng.random(array.shape) < 0.5, -1.0, 1.0) if drawn else array
            moved.append(np.nextafter(array, np.copysign(np.inf, sign).astype(array.dtype)))
        yield moved


def wide(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The inputs, floating-point ones in float64."""
    return [array.astype(np.float64) if array.dtype.kind == "f" else array for array in inputs]


def _in_float64(
    name: str, function: Callable[..., Any], inputs: Sequence[np.ndarray], devices: int
) -> list[np.ndarray]:
    arrays = wide(inputs)
    try:
        return _on_numpy(trace(function, *arrays), arrays, devices)
    except XBackendError as error:
        raise ArgumentError(f"{name} has no oracle in float64 by itself, give it one of its own: {error}") from error


def _on_numpy(program: Program, inputs: Sequence[np.ndarray], devices: int) -> list[np.ndarray]:
    with opening.open(ORACLE, virtual_devices=devices) as backend:
        return flatten(backend.compile(program, devices=bind(program, backend, devices))(*inputs), np.asarray)[0]


def bind(program: Program, backend: Backend, devices: int) -> DeviceMap:
    """The program's logical devices spread over the backend's first ``devices`` of the default device's kind.

    Raises `DeviceUnavailable` where there are fewer.
    """
    kind = backend.default_device.kind
    pool = [d for d in backend.devices if d.kind == kind][:devices]
    if len(pool) < devices:
        raise DeviceUnavailable(
            f"backend {backend.name} has {len(pool)} devices of kind {kind} ({', '.join(map(str, backend.devices))}), "
            f"{devices} were asked for"
        )
    return DeviceMap.spread(program.logical_devices, pool)
