"""The worker's part of the figures that xbackend sets itself: its call against the call written by hand, its rate
against the BLAS called directly. Both sides in one process, in short rounds in turn.

Plain data in, plain data out, as in the measuring loop.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import xbackend as xb
from overhead import handwritten
from overhead.handwritten.training import MOMENTUM, RATE
from xbackend import workloads
from xbackend.backends import registry
from xbackend.errors import ParityError
from xbackend.measure.load import foreign_load
from xbackend.measure.loop import quiet
from xbackend.program.structure import flatten
from xbackend.strategies import OneDevice
from xbackend.training import SGD, layers
from xbackend.workloads import matpow

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Executable

Round = Callable[[int], float]  # iterations -> seconds


def _product(a: Any, b: Any) -> Any:
    return xb.matmul(a, b)


def tax(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of our call and of the hand-written one, on device-resident values as each of them has it.

    ``job``: ``size``, ``n`` (1: the product of two matrices; else A^n + B^n), ``rounds``, ``round_seconds``. Each round
    is so many calls one after the other, the last one waited for. Returns ``ours`` and ``by_hand`` (seconds per call of
    each round, pairs in turn), ``iterations`` of both, and ``foreign_cores`` that others kept busy. Raises
    `ParityError` where one of them computes something else.
    """
    size, n = job["size"], job["n"]
    a, b = matpow.inputs(size=size, seed=0)
    if n == 1:
        function, by_hand = _product, handwritten.find(registry.get(backend.name), "product", "float32")
        oracle = a.astype(np.float64) @ b.astype(np.float64)
    else:
        function = matpow.program(n=n)
        by_hand = handwritten.find(registry.get(backend.name), "sum_of_powers", "float32", n)
        oracle = matpow.oracle(a, b, n=n)
    device = str(backend.default_device)
    executable = backend.compile(function, a, b, devices={"dev0": device, "dev1": device} if n > 1 else {})
    theirs = [by_hand.place(x) for x in (a, b)]
    expected = oracle, matpow.tolerance(size=size, n=n)
    return side_by_side(executable, (a, b), by_hand, theirs, expected=expected, job=job)


def chain(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of `equation_of_state` on float64: ours, and the same function called with NumPy's arrays. ``job``:
    ``size`` (elements), ``rounds``, ``round_seconds``; result as of `tax`. Raises `ParityError`.
    """
    generator = np.random.default_rng(0)
    ranges = (0.1, 40.0), (-2.0, 30.0), (0.0, 5e3)  # g/kg, degrees Celsius, dbar
    arrays = [generator.uniform(low, high, job["size"]) for low, high in ranges]
    executable = backend.compile(equation_of_state, *arrays, sqrt=xb.sqrt)

    def plain(*given: np.ndarray) -> Any:
        return equation_of_state(*given, sqrt=np.sqrt)

    by_hand = handwritten.ByHand(plain, np.array, lambda _: None)
    oracle = plain(*(a.astype(np.longdouble) for a in arrays))
    return side_by_side(executable, arrays, by_hand, arrays, expected=(oracle, 1e-12), job=job)


def loop(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a loop of small steps, ours, the framework's own as its users write it, and theirs compiled again, on
    float64. ``job``: ``steps``, ``rounds``, ``round_seconds``; result as of `of_suite`. Raises `ParityError`.
    """
    generator = np.random.default_rng(0)
    x = generator.standard_normal((job["steps"], handwritten.WIDTH))
    b = 0.3 * generator.standard_normal((handwritten.WIDTH, handwritten.WIDTH))
    carry, rows = np.zeros(handwritten.WIDTH), []
    for row in x:
        carry = np.tanh(carry @ b + row)
        rows.append(carry)
    by_hand, again = (handwritten.find(registry.get(backend.name), "loop", "float64", job["steps"]) for _ in range(2))
    executable = backend.compile(_recurrence, x, b)
    theirs = [by_hand.place(a) for a in (x, b)]
    expected = np.array(rows), 1e-10
    return side_by_side(executable, (x, b), by_hand, theirs, expected=expected, job=job, again=again)


def _recurrence(x: Any, b: Any) -> Any:
    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        after = xb.tanh(carry @ b + row)
        return after, after

    return xb.scan(step, xb.zeros(handwritten.WIDTH, dtype=x.dtype), x)[1]


def of_suite(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a workload of the suite, of a model with its gradient: ours, the same as users of the framework write
    it, and theirs once more, compiled again. ``job``: ``workload``, ``parameters``, ``rounds``, ``round_seconds``;
    result as of `tax`, and ``again``. Raises `ParityError` where the two compute something else.
    """
    workload = workloads.get(job["workload"])
    given = workload.resolve(**job["parameters"])
    arrays = workload.arrays(0, **given)
    program = workload.traced(given, bool(workload.gradient))
    executable = backend.compile(program, *arrays)
    both = [by_hand_of_suite(backend, job["workload"], given) for _ in range(2)]
    return _three_sides(executable, arrays, both, given["dtype"], job)


def imported(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a brought graph: the program's call, and the framework's own compiled function of the same graph,
    twice. ``job`` and result as of `of_suite`; the graph is its hand-written version. Raises `ParityError`,
    `GraphError`.
    """
    workload = workloads.get(job["workload"])
    given = workload.resolve(**job["parameters"])
    arrays = workload.arrays(0, **given)
    both = [by_hand_of_suite(backend, job["workload"], given) for _ in range(2)]
    executable = backend.compile(handwritten.brought(registry.get(backend.name), both[0], arrays))
    return _three_sides(executable, arrays, both, given["dtype"], job)


def _three_sides(
    executable: Executable,
    arrays: Sequence[np.ndarray],
    both: Sequence[handwritten.ByHand],
    dtype: str,
    job: dict[str, Any],
) -> dict[str, Any]:
    """Seconds of ours and of two by hand, in turn, after a check that the results are equal."""
    backend = executable.backend
    theirs = [[each.place(array) for array in arrays] for each in both]
    _check_equal(executable(*arrays), both[0].call(*theirs[0]), dtype)
    sides = [
        _round(executable.execute, executable.put(*arrays), backend.synchronize),
        *(_round(each.call, placed, each.wait) for each, placed in zip(both, theirs, strict=True)),
    ]
    with foreign_load() as foreign:
        (ours, by_hand, again), iterations = in_turn(sides, job["rounds"], job["round_seconds"])
    return {"ours": ours, "by_hand": by_hand, "again": again, "iterations": iterations, "foreign_cores": foreign[0]}


def by_hand_of_suite(backend: Backend, name: str, given: Mapping[str, Any]) -> handwritten.ByHand:
    rest = {key: value for key, value in given.items() if key in ("steps",)}
    return handwritten.find(registry.get(backend.name), name, given["dtype"], *rest.values())


def _check_equal(ours: Any, theirs: Sequence[Any], dtype: str) -> None:
    """Raises `ParityError` where two results differ by more than the order of their sums explains."""
    leaves, _ = flatten(ours, np.asarray)
    tolerance = 1e-3 if dtype == "float32" else 1e-8
    error = workloads.relative_error(leaves, [np.asarray(array) for array in theirs])
    if not error <= tolerance:
        raise ParityError(f"the hand-written version differs from xbackend by {error:.2g}, {tolerance:.2g} is allowed")


def step(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a step of training: ours on one device, the same as users of the framework write it, and theirs once
    more, compiled again. ``job``: ``batch``, ``widths`` (of rows, of the hidden layer, of the classes), ``rounds``,
    ``round_seconds``; result as of `of_suite`. Raises `ParityError` where the losses of the first steps differ.
    """
    x, labels, start = data_of_step(job, "float32")
    strategy = OneDevice(str(backend.default_device))
    optimizer = SGD(RATE, momentum=MOMENTUM)
    copies = strategy.variables(start, optimizer)
    executable = backend.compile(strategy.step(classifier, copies, optimizer), x, labels)
    both = [handwritten.find(registry.get(backend.name), "step", "float32", start) for _ in range(2)]
    theirs = [both[0].place(a) for a in (x, labels)]
    for number in range(3):
        found, expected = executable(x, labels)[0], np.asarray(both[0].call(*theirs))
        if not abs(float(found) - float(expected)) <= 1e-4 * abs(float(expected)):
            raise ParityError(f"the losses of step {number} are {float(found)} and by hand {float(expected)}")
    sides = [
        _round(executable.execute, executable.put(x, labels), backend.synchronize),
        *(_round(each.call, theirs, each.wait) for each in both),
    ]
    with foreign_load() as foreign:
        (ours, by_hand, again), iterations = in_turn(sides, job["rounds"], job["round_seconds"])
    return {"ours": ours, "by_hand": by_hand, "again": again, "iterations": iterations, "foreign_cores": foreign[0]}


def data_of_step(job: dict[str, Any], dtype: str) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Rows, labels and the weights of `classifier`, seeded."""
    generator, (inputs, hidden, classes) = np.random.default_rng(0), job["widths"]
    x = generator.standard_normal((job["batch"], inputs)).astype(dtype)
    labels = generator.integers(classes, size=job["batch"])
    shapes = {"w": (inputs, hidden), "b": (hidden,), "v": (hidden, classes), "c": (classes,)}
    return x, labels, {name: (0.1 * generator.standard_normal(shape)).astype(dtype) for name, shape in shapes.items()}


def classifier(weights: Mapping[str, Any], x: Any, labels: Any) -> Any:
    hidden = xb.tanh(layers.dense(x, weights["w"], weights["b"]))
    return layers.cross_entropy(layers.dense(hidden, weights["v"], weights["c"]), labels)


def building(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds from a function of many small operations to its first result: ours, traced, bound, lowered, compiled and
    called, and the framework's own graph as its users write it. ``job``: ``layers`` (of five operations each),
    ``rounds``; result as of `tax`. Both find their compiled code on disk. Raises `ParityError`.
    """
    a, b = matpow.inputs(size=2, seed=0)
    count, entry = job["layers"], registry.get(backend.name)
    expected = handwritten.stacked(
        a.astype(np.float64), b.astype(np.float64), count, np.tanh, lambda y: np.mean(y, axis=0)
    )

    def stacked(x: Any, y: Any) -> Any:
        return handwritten.stacked(x, y, count, xb.tanh, lambda z: xb.mean(z, axis=0))

    def ours() -> Any:
        return backend.compile(stacked, a, b)(a, b)

    def theirs() -> Any:
        by_hand = handwritten.find(entry, "layers", "float32", count)
        result = by_hand.call(*map(by_hand.place, (a, b)))
        by_hand.wait(result)
        return result

    for who, make in (("xbackend", ours), ("the hand-written version", theirs)):
        _check(who, make(), expected, 1e-3)
    sides = [_round(make, (), lambda _: None) for make in (ours, theirs)]
    seconds: list[list[float]] = [[], []]
    with foreign_load() as foreign:
        for number in range(job["rounds"]):
            for i in (0, 1) if number % 2 == 0 else (1, 0):
                seconds[i].append(sides[i](1))
    return {"ours": seconds[0], "by_hand": seconds[1], "iterations": [1, 1], "foreign_cores": foreign[0]}


def equation_of_state(s: Any, t: Any, p: Any, *, sqrt: Callable[[Any], Any]) -> Any:
    """About 100 operations element by element, of the form that equations of state of sea water have: polynomials of
    salinity, temperature and pressure, their quotients, and square roots. The coefficients mean nothing.

    A published kernel of that form: https://github.com/dionhaefner/pyhpc-benchmarks, ``equation_of_state``.
    """
    r = sqrt(s)
    a = 999.8 + t * (6.8e-2 + t * (-9.1e-3 + t * (1.0e-4 + t * (-1.1e-6 + 6.5e-9 * t))))
    b = 0.82 + t * (-4.1e-3 + t * (7.6e-5 + t * (-8.2e-7 + 5.4e-9 * t)))
    c = -5.7e-3 + t * (1.0e-4 + t * (-1.7e-6 + 1.1e-8 * t))
    surface = a + s * (b + r * c + 4.8e-4 * s)
    d = 19652.2 + t * (148.4 + t * (-2.33 + t * (1.36e-2 - 5.2e-5 * t)))
    e = 54.7 + t * (-0.60 + t * (1.1e-2 - 6.2e-5 * t))
    f = 7.9e-2 + t * (1.6e-2 - 5.3e-4 * t)
    stiffness = d + s * (e + r * f)
    g = 3.24 + t * (1.44e-3 + t * (1.16e-4 - 5.8e-7 * t))
    h = 2.28e-3 + t * (-1.1e-5 - 1.6e-6 * t) + 1.9e-4 * r
    k = 8.5e-5 + t * (-6.1e-6 + 5.3e-8 * t) + s * (-9.9e-7 + t * (2.1e-8 + 9.2e-10 * t))
    bulk = stiffness + p * (g + s * h + p * k * 1e-3)
    density = surface / (1.0 - p / bulk)
    slope = bulk - p * (g + 2.0 * p * k * 1e-3)
    speed = sqrt(bulk * bulk / (density * sqrt(slope * slope + 1.0)))
    return density + 0.5 * p * speed / (1.0 + s + r * speed)


def side_by_side(
    executable: Executable,
    arrays: Sequence[np.ndarray],
    by_hand: handwritten.ByHand,
    theirs: Sequence[Any],
    *,
    expected: tuple[np.ndarray, float],
    job: dict[str, Any],
    again: handwritten.ByHand | None = None,
) -> dict[str, Any]:
    """Seconds of ours on ``arrays`` and of the same by hand on ``theirs``, once both give ``expected``: the oracle's
    result, within a tolerance. ``job`` and result as of `tax`; with theirs compiled ``again``, as of `of_suite`. Raises
    `ParityError`.
    """
    backend = executable.backend
    _check("xbackend", executable(*arrays), *expected)
    _check("the hand-written version", by_hand.call(*theirs), *expected)
    sides = [
        _round(executable.execute, executable.put(*arrays), backend.synchronize),
        *(_round(each.call, theirs, each.wait) for each in (by_hand, again) if each is not None),
    ]
    with foreign_load() as foreign:
        seconds, iterations = in_turn(sides, job["rounds"], job["round_seconds"])
    named = dict(zip(("ours", "by_hand", "again"), seconds, strict=False))
    return {**named, "iterations": iterations, "foreign_cores": foreign[0]}


def _check(who: str, result: Any, oracle: np.ndarray, tolerance: float) -> None:
    error = workloads.relative_error(np.asarray(result), oracle)
    if not error <= tolerance:
        raise ParityError(f"{who} has a relative error of {error:.2g}, {tolerance:.2g} is allowed")


def _round(function: Callable[..., Any], arguments: Sequence[Any], wait: Callable[[Any], object]) -> Round:
    def run(iterations: int) -> float:
        start = time.perf_counter()
        for _ in range(iterations):
            result = function(*arguments)
        wait(result)
        return time.perf_counter() - start

    return run


def in_turn(
    sides: Sequence[Round], rounds: int, round_seconds: float, pause: float = 0.0
) -> tuple[list[list[float]], list[int]]:
    """Seconds per call of ``rounds`` rounds of each side, one of each in turn, and the iterations of their rounds.

    Every other turn goes backwards, so that nobody is always first. ``pause`` seconds between two rounds let the
    threads of one side go to sleep before the other starts.
    """
    iterations = [_iterations(side, round_seconds) for side in sides]
    seconds: list[list[float]] = [[] for _ in sides]
    order = list(range(len(sides)))
    with quiet():
        for number in range(rounds):
            for i in order if number % 2 == 0 else reversed(order):
                if pause:
                    time.sleep(pause)
                seconds[i].append(sides[i](iterations[i]) / iterations[i])
    return seconds, iterations


def _iterations(side: Round, round_seconds: float) -> int:
    """How many iterations last ``round_seconds``; warms up on the way. The first call may compile: it tells nothing."""
    side(1)
    iterations, took = 1, side(1)
    while took < round_seconds:
        iterations = max(iterations + 1, int(iterations * min(10.0, 1.1 * round_seconds / max(took, 1e-9))))
        took = side(iterations)
    return iterations


def blas(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of one product of two float32 matrices: the backend's, and of each BLAS in this process called directly.

    ``job``: ``size``, ``rounds``. Returns ``ours`` and ``libraries``, a list of ``file``, ``library``, ``version``,
    ``threads``, ``seconds``; a framework that brings its own kernels leaves only NumPy's BLAS there.
    """
    size = job["size"]
    a, b = matpow.inputs(size=size, seed=0)
    executable = backend.compile(_product, a, b)
    oracle = a.astype(np.float64) @ b.astype(np.float64)
    _check("xbackend", executable(a, b), oracle, matpow.tolerance(size=size, n=1))
    libraries = _libraries()
    sides = [_round(executable.execute, executable.put(a, b), backend.synchronize)]
    for library in libraries:
        out = np.zeros_like(a)
        sides.append(_round(_sgemm(library.pop("function"), library.pop("wide")), (a, b, out), lambda _: None))
        sides[-1](1)
        _check(library["file"], out, oracle, matpow.tolerance(size=size, n=1))
    with foreign_load() as foreign:
        (ours, *others), _ = in_turn(sides, job["rounds"], 0.0, pause=0.05)
    for library, seconds in zip(libraries, others, strict=True):
        library["seconds"] = seconds
    return {"ours": ours, "libraries": libraries, "foreign_cores": foreign[0]}


def _libraries() -> list[dict[str, Any]]:
    """The BLAS libraries loaded in this process whose cblas_sgemm can be called, with that function."""
    from threadpoolctl import threadpool_info

    found = []
    for pool in threadpool_info():
        if pool["user_api"] != "blas":
            continue
        library = ctypes.CDLL(pool["filepath"])
        # NumPy's and SciPy's own builds of OpenBLAS rename their symbols; 64 means that integers are 64 bits wide.
        for name in ("scipy_cblas_sgemm64_", "cblas_sgemm64_", "scipy_cblas_sgemm", "cblas_sgemm"):
            if hasattr(library, name):
                found.append(
                    {
                        "file": pool["filepath"].rsplit("/", 1)[-1],
                        "library": pool["internal_api"],
                        "version": pool.get("version"),
                        "threads": pool["num_threads"],
                        "function": getattr(library, name),
                        "wide": "64" in name,
                    }
                )
                break
    return found


def _sgemm(function: Any, wide: bool) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    integer = ctypes.c_int64 if wide else ctypes.c_int
    real, pointer = ctypes.c_float, ctypes.c_void_p
    function.restype = None
    function.argtypes = [*[ctypes.c_int] * 3, *[integer] * 3, real, *[pointer, integer] * 2, real, pointer, integer]
    rows, plain = 101, 111  # CblasRowMajor, CblasNoTrans

    def call(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        n = len(a)
        function(rows, plain, plain, n, n, n, 1.0, a.ctypes.data, n, b.ctypes.data, n, 0.0, out.ctypes.data, n)

    return call
