"""Random programs on a backend against the oracle: many in one compiled program, and wrong ones made small."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import count
from typing import Any

import numpy as np
import tiers
from batches import Host
from hypothesis import HealthCheck, Phase, given, seed, settings
from random_programs import NAME, ORACLE, Case, Source, case_of, leaves, ops_of, programs
from tolerances import CHAIN

from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.source.differing import Differing, in_xbackend
from xbackend.errors import WorkerDied, WorkerTimeout, XBackendError
from xbackend.program.precision import widened
from xbackend.program.smaller import Example, smallest
from xbackend.program.smaller.changing import changed

EACH = 25 if tiers.chosen == tiers.TIERS[-1] else 4  # programs in a test
TOGETHER = 5  # programs compiled as one: C and Numba take more than 20 minutes for 25
DEVICES = {"dev0": "cpu:0", "dev1": "cpu:1"}
ONE = dict.fromkeys(DEVICES, "cpu:0")
ITERATED = {"float32": 1e-2, "float64": 1e-5}
BY_ITERATION = {"eigh", "eigvalsh", "svd", "svdvals", "qr", "gammaln", "digamma"}
# Known errors of a framework (docs/control_flow.md), and its missing gradients of gradients.
REFUSED = re.compile("cannot do gradient number|cannot do the gradient .*(NotImplementedError|NullTypeGradError)")
SENSITIVE = 300.0  # the largest condition number of a result
STEP = 1e-5
# The same programs each time, unless this variable has another seed.
SEED = "XBACKEND_TEST_SEED"


@dataclass(frozen=True)
class Judged:
    """A program and its expected results, of two calls: the second begins with the state of the first."""

    case: Case

    @cached_property
    def want(self) -> list[np.ndarray]:
        """NumPy's results in double precision."""
        return twice(Example(self.case.program, self.case.arguments))

    @property
    def source(self) -> Source:
        assert self.case.source is not None
        return self.case.source

    @cached_property
    def limits(self) -> dict[str, float]:
        limits = ITERATED if ops_of(self.case.program) & BY_ITERATION else CHAIN
        # Results of single precision are no better than their input.
        narrow = any(value.dtype == "float32" for value in self.case.program.values)
        return dict.fromkeys(limits, limits["float32"]) if narrow else limits

    def wrong(self, got: Sequence[np.ndarray]) -> str | None:
        """The error of results; `None` if they are right."""
        nodes = [self.case.program.values[i] for i in self.case.program.outputs] * 2
        for number, (found, want, node) in enumerate(zip(got, self.want, nodes, strict=True)):
            which = f"result {number % (len(nodes) // 2)} of call {number // (len(nodes) // 2) + 1}"
            if (found.shape, found.dtype.name) != (node.shape, node.dtype):
                return f"{which} is {found.dtype}{found.shape}, and should be {node.aval}"
            allowed = self.limits[node.dtype] * magnitude(want) if node.dtype.is_floating else 0
            error = np.abs(found.astype("f8") - want.astype("f8"))
            if not (error <= allowed).all():
                return f"{which}: {found.tolist()} instead of {want.tolist()} (allowed is an error of {allowed})"
        return None


def magnitude(want: np.ndarray) -> float:
    return float(np.abs(want).max(initial=1.0))


def twice(example: Example) -> list[np.ndarray]:
    """The results of two calls in double precision."""
    wide = doubled(example)
    run = ORACLE.compile(wide.program, devices=ONE)
    return [*leaves(run(*wide.arrays)), *leaves(run(*wide.arrays))]


def doubled(example: Example) -> Example:
    """The program in double precision, with shared variables of its own."""
    arrays = [a.astype("f8") if a.dtype.kind == "f" else a for a in example.arrays]
    return Example(widened(example.program), tuple(arrays))


def inputs(example: Example) -> dict[int, np.ndarray]:
    """The arguments and the first values of shared variables, by their values' numbers."""
    return {**example.argument, **{i: one.value for i, one in example.program.shared.items()}}


def directions(example: Example) -> dict[int, np.ndarray]:
    """Random numbers of 0.5 to 1, of both signs, for each floating-point input."""
    rng = np.random.default_rng(0)
    floats = {i: array for i, array in inputs(example).items() if array.dtype.kind == "f"}
    return {i: rng.uniform(0.5, 1.0, a.shape) * rng.choice([-1.0, 1.0], a.shape) for i, a in floats.items()}


def moved(example: Example, ways: Mapping[int, np.ndarray], step: float) -> Example:
    """The program with ``step`` times ``ways`` added to its inputs."""
    other = {i: array + step * ways[i] for i, array in inputs(example).items() if i in ways}
    there = changed(example, given={i: a for i, a in other.items() if i in example.argument}, shared=other)
    assert there is not None
    return there


def settled(case: Case) -> Judged | None:
    """The program without ill-conditioned results, in which rounding counts; `None` if none is left."""
    source = case.source
    assert source is not None
    while True:
        wide = doubled(Example(case.program, case.arguments))
        want, there = twice(wide), twice(moved(wide, directions(wide), 1e-6))
        half = len(want) // 2
        steep = {
            i % half
            for i, (a, b) in enumerate(zip(want, there, strict=True))
            if not np.abs(a.astype("f8") - b).max(initial=0.0) <= 1e-6 * SENSITIVE * magnitude(a)
        }
        if not steep:
            return Judged(case)
        kept = tuple(name for i, name in enumerate(source.outputs) if i not in steep)
        if not kept:
            return None
        wrt = source.wrt if max(steep) < len(source.outputs) - 1 else ()
        source = replace(source, outputs=kept, wrt=wrt).pruned()
        case = case_of(source)


def slope_error(case: Case) -> float:
    """The error of a program's gradients against a central difference, as a share of the allowed one; 0 without any."""
    wide = doubled(Example(case.program, case.arguments))
    program = wide.program
    places = {i: place for place, i in enumerate(program.outputs)}
    slopes = {v.wrt: i for i in program.outputs if (v := program.values[i]).op == "grad" and v.inputs[0] in places}
    if not slopes:
        return 0.0
    results, end = twice(wide), program.values[max(slopes.values())].inputs[0]
    slopes = {wrt: i for wrt, i in slopes.items() if program.values[i].inputs[0] == end}
    loss, ways = places[end], {i: way for i, way in directions(wide).items() if i in slopes}
    terms = [results[places[i]] * ways[wrt] for wrt, i in slopes.items()]
    there, back = (twice(moved(wide, ways, step))[loss] for step in (STEP, -STEP))
    difference = float(there - back) / (2 * STEP)
    size = 1.0 + sum(float(np.abs(t).sum()) for t in terms)
    return abs(sum(float(t.sum()) for t in terms) - difference) / (1e-6 * size)


@cache
def chunk(number: int, placed: bool, without: frozenset[str], lines: tuple[int, int]) -> list[Judged]:
    """The programs of a chunk, with so many lines. No two have the same ops in the same order.

    Hypothesis also tries constants of the modules that are loaded. So the programs are the same as those of a whole run
    if all of its folder is collected: ``pytest tests/contract -k NAME``, and not the file alone.
    """
    found: dict[tuple[str, ...], Judged] = {}
    least, largest = lines

    @settings(
        max_examples=EACH,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        programs(tuple(DEVICES) if placed else (), tame=True, grads=True, least=least, largest=largest, without=without)
    )
    def collect(case: Case) -> None:
        kept = settled(case)
        if kept is not None:
            found[tuple(node.op for node in kept.case.program.values)] = kept

    turns = count(1_000_000 * int(os.environ.get(SEED, "0")) + number, 1000)
    while len(found) < EACH:
        seed(next(turns))(collect)()
    return list(found.values())[:EACH]


def run(host: Host, cases: Sequence[Judged]) -> list[list[np.ndarray]]:
    """The results of two calls of each program. All are compiled as one."""
    examples = [changed(Example(case.case.program, case.case.arguments)) for case in cases]  # with state of their own
    assert None not in examples
    programs = [TracedProgram.of(one.program) for one in examples]

    def together(*inputs: Any) -> Any:
        left = iter(inputs)
        return [program(*(next(left) for _ in program.inputs)) for program in programs]

    arrays = [array for one in examples for array in one.arrays]
    devices = DEVICES if any(program.logical_devices for program in programs) else None
    call = host.backend.compile(together, *arrays, devices=devices)
    first, second = call(*arrays), call(*arrays)
    return [[*leaves(a), *leaves(b)] for a, b in zip(first, second, strict=True)]


def what_is_wrong(host: Host, case: Judged) -> str | None:
    """The error of one program's results, or of running it."""
    try:
        return case.wrong(run(host, [case])[0])
    except (XBackendError, AssertionError) as error:
        if isinstance(error, WorkerDied | WorkerTimeout):
            host.close()
        return f"{type(error).__name__}: {error}"


def wrong_ones(host: Host, cases: Sequence[Judged]) -> Iterator[Judged]:
    """The wrong programs, compiled `TOGETHER` at a time."""
    for first in range(0, len(cases), TOGETHER):
        for case in _wrong_ones(host, cases[first : first + TOGETHER]):
            if not REFUSED.search(what_is_wrong(host, case) or ""):
                yield case


def _wrong_ones(host: Host, cases: Sequence[Judged]) -> Iterator[Judged]:
    """The wrong programs: compiled as one, and in halves if that fails."""
    try:
        for case, got in zip(cases, run(host, cases), strict=True):
            if case.wrong(got):
                yield case
    except XBackendError as error:
        if isinstance(error, WorkerDied | WorkerTimeout):
            host.close()
        if len(cases) == 1:
            yield cases[0]
            return
        middle = len(cases) // 2
        found = [*_wrong_ones(host, cases[:middle]), *_wrong_ones(host, cases[middle:])]
        yield from found or [together_wrong(host, list(cases))]


def together_wrong(host: Host, cases: list[Judged]) -> Judged:
    """Programs that are wrong only in one compiled program: as few of them as possible."""
    for case in list(cases):
        fewer = [c for c in cases if c is not case]
        if fewer and what_is_wrong(host, merged(fewer)):
            cases = fewer
    return merged(cases)


def merged(cases: Sequence[Judged]) -> Judged:
    """Several programs as one, with renumbered names, and the gradient of the last."""
    sources = [_renumbered(case.source, 100 * number) for number, case in enumerate(cases)]
    return Judged(
        case_of(
            Source(
                {n: a for s in sources for n, a in s.arguments.items()},
                {n: a for s in sources for n, a in s.state.items()},
                tuple(line for s in sources for line in s.lines),
                tuple(n for s in sources for n in s.outputs),
                {n: v for s in sources for n, v in s.updates.items()},
                sources[-1].wrt,
            )
        )
    )


def _renumbered(source: Source, by: int) -> Source:
    def name(text: str) -> str:
        return re.sub(NAME, lambda found: f"{found[0][0]}{int(found[0][1:]) + by}", text)

    def names(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(name, texts))

    return Source(
        {name(n): a for n, a in source.arguments.items()},
        {name(n): a for n, a in source.state.items()},
        tuple(replace(line, targets=names(line.targets), text=name(line.text)) for line in source.lines),
        names(source.outputs),
        {name(n): name(v) for n, v in source.updates.items()},
        names(source.wrt),
    )


def smaller(case: Judged, wrong: Callable[[Judged], Any], tries: int = 100) -> Judged:
    """A smaller program that is wrong too, and has results in NumPy."""

    def shows(example: Example) -> bool:
        one = judged(example)
        return bool(one.want and wrong(one))

    found = smallest(
        Example(case.case.program, case.case.arguments),
        shows,
        lambda program, arrays: leaves(ORACLE.compile(program, devices=ONE)(*arrays)),
        goes_on=iter([True] * tries + [False]).__next__,
    )
    return judged(found.example)


def judged(example: Example) -> Judged:
    """A program without code."""
    program = TracedProgram.of(example.program)
    return Judged(Case(program, example.arrays, tuple(program.shared.values())))


def report(host: Host, case: Judged) -> str:
    """The error of a program, and the script that shows it."""
    small = smaller(case, partial(what_is_wrong, host))
    return (
        f"{host.name}: {what_is_wrong(host, small) or 'wrong beside other programs only'}\n\n{script(small, host.name)}"
    )


def script(case: Judged, backend: str = "numpy") -> str:
    program, want = case.case.program, case.want[: len(case.case.program.outputs)]
    limits = [case.limits.get(program.values[i].dtype, 0.0) for i in program.outputs]
    allowed = [limit * magnitude(right) for limit, right in zip(limits, want, strict=True)]
    found = Differing(program, case.case.arguments, want, [], allowed, {}, backend)
    return in_xbackend(found, DEVICES, 3 if program.logical_devices else 1).text
