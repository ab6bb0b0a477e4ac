"""Random programs on a backend against the oracle: many in one compiled program, and wrong ones made small."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
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

from xbackend.errors import WorkerDied, WorkerTimeout, XBackendError

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
        return twice(self.source)

    @property
    def source(self) -> Source:
        assert self.case.source is not None
        return self.case.source

    @cached_property
    def limits(self) -> dict[str, float]:
        limits = ITERATED if ops_of(self.case.program) & BY_ITERATION else CHAIN
        # Results of single precision are no better than their input.
        return dict.fromkeys(limits, limits["float32"]) if "float32" in self.source.code else limits

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


def twice(source: Source) -> list[np.ndarray]:
    """The results of two calls in double precision."""
    arguments = [a.astype("f8") if a.dtype.kind == "f" else a for a in source.arguments.values()]
    run = ORACLE.compile(source.function(double=True), *arguments, devices=ONE)
    return [*leaves(run(*arguments)), *leaves(run(*arguments))]


def moved(source: Source, step: float, direction: int = 0) -> Source:
    """The program in double precision with slightly changed floating-point inputs and state."""
    rng = np.random.default_rng(direction)

    def away(array: np.ndarray) -> np.ndarray:
        random = rng.uniform(0.5, 1.0, array.shape) * rng.choice([-1.0, 1.0], array.shape)
        return array.astype("f8") + step * random if array.dtype.kind == "f" else array

    state = {n: (away(a), device) for n, (a, device) in source.state.items()}
    return replace(source, arguments={n: away(a) for n, a in source.arguments.items()}, state=state)


def settled(case: Case) -> Judged | None:
    """The program without ill-conditioned results, in which rounding counts; `None` if none is left."""
    source = case.source
    assert source is not None
    while source.outputs:
        want, there = twice(source), twice(moved(source, 1e-6))
        half = len(want) // 2
        steep = {
            i % half
            for i, (a, b) in enumerate(zip(want, there, strict=True))
            if not np.abs(a.astype("f8") - b).max(initial=0.0) <= 1e-6 * SENSITIVE * magnitude(a)
        }
        if not steep:
            return Judged(case_of(source) if source is not case.source else case)
        kept = tuple(name for i, name in enumerate(source.outputs) if i not in steep)
        wrt = source.wrt if max(steep) < len(source.outputs) - 1 else ()
        source = replace(source, outputs=kept, wrt=wrt).pruned()
    return None


def slope_error(source: Source) -> float:
    """The error of a program's gradient against a central difference, as a share of the allowed one."""
    loss = len(source.outputs) - 1
    inputs = {**source.arguments, **{n: a for n, (a, _) in source.state.items()}}
    there, back = moved(source, STEP), moved(source, -STEP)
    elsewhere = {**there.arguments, **{n: a for n, (a, _) in there.state.items()}}
    results = twice(source)
    gradients = results[len(source.outputs) : len(results) // 2]
    terms = [g * (elsewhere[n] - inputs[n]) / STEP for n, g in zip(source.wrt, gradients, strict=True)]
    difference = (twice(there)[loss] - twice(back)[loss]) / (2 * STEP)
    size = 1.0 + sum(float(np.abs(t).sum()) for t in terms)
    return abs(sum(float(t.sum()) for t in terms) - float(difference)) / (1e-6 * size)


@cache
def chunk(number: int, placed: bool, without: frozenset[str], lines: tuple[int, int]) -> list[Judged]:
    """The programs of a chunk, with so many lines. No two have the same ops in the same order."""
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
    sources = [case.source for case in cases]
    arguments = [list(s.arguments.values()) for s in sources]

    def together(*inputs: Any) -> Any:
        left = iter(inputs)
        return [s.function()(*(next(left) for _ in a)) for s, a in zip(sources, arguments, strict=True)]

    arrays = [array for each in arguments for array in each]
    devices = DEVICES if any("dev" in s.code for s in sources) else None
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
    """A smaller program that is wrong too: with fewer results, and with numbers in place of lines."""
    found, in_vain = case, set[str]()
    while True:
        for label, source in _candidates(found.source):
            if label in in_vain:
                continue
            tries -= 1
            candidate = Judged(case_of(source.pruned()))
            if tries >= 0 and wrong(candidate):
                found = candidate
                break
            in_vain.add(label)
        else:
            return found


def _candidates(source: Source) -> Iterator[tuple[str, Source]]:
    """Smaller variants of the program, the largest steps first, each with a name."""
    if len(source.outputs) > 1:
        yield "the last result", replace(source, outputs=source.outputs[-1:], updates={})
    for name in source.outputs[: len(source.outputs) if len(source.outputs) > 1 else 0]:
        yield f"only {name}", replace(source, outputs=(name,), wrt=(), updates={})
    if source.wrt:
        yield "no gradient", replace(source, wrt=())
    for name in source.wrt if len(source.wrt) > 1 else ():
        yield f"only the gradient by {name}", replace(source, wrt=(name,))
    if source.updates:
        yield "no updates", replace(source, updates={})
    for number in reversed(range(len(source.lines))):
        for one in _with_numbers(source, number):
            yield f"numbers for {source.lines[number].targets} {len(one.wrt) - len(source.wrt)}", one
    if any(line.device for line in source.lines):
        yield "no devices", replace(source, lines=tuple(replace(line, device=None) for line in source.lines))
    used = {*re.findall(NAME, " ".join(map(str, source.lines))), *source.outputs, *source.updates.values(), *source.wrt}
    if set(source.arguments) - used:
        yield "used arguments", replace(source, arguments={n: a for n, a in source.arguments.items() if n in used})


def _with_numbers(source: Source, number: int) -> Iterator[Source]:
    """The program with the result of a line as an argument."""
    line = source.lines[number]
    if not set(line.targets).isdisjoint(source.outputs):
        return
    until = replace(source, outputs=line.targets, wrt=(), updates={}, form="({},)").pruned()
    given = until.arguments.values()
    arrays = leaves(ORACLE.compile(until.function(), *given, devices=ONE)(*given))
    rest = (*source.lines[:number], *source.lines[number + 1 :])
    more = dict(zip(line.targets, arrays, strict=True))
    floats = [n for n, a in more.items() if a.dtype.kind == "f"]
    for wrt in ((*source.wrt, *floats), source.wrt) if source.wrt else ((),):
        try:
            one = replace(source, arguments={**source.arguments, **more}, lines=rest, wrt=wrt)
            case_of(one.pruned())
        except XBackendError:
            continue
        yield one


def report(host: Host, case: Judged) -> str:
    """The error of a program, and code that shows it."""
    small = smaller(case, partial(what_is_wrong, host))
    source = small.source
    devices = f", devices={DEVICES}" if "dev" in source.code else ""
    options = ", virtual_devices=3" if devices else ""
    given = ", ".join(source.arguments)
    return (
        f"{host.name}: {what_is_wrong(host, small) or 'wrong beside other programs only'}\n\n{source.code}\n\n"
        f"with xb.open({host.name!r}{options}) as backend:\n"
        f"    print(backend.compile(program{', ' if given else ''}{given}{devices})({given}))\n"
    )
