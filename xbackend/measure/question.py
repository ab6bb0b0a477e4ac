"""The open comparisons of a session: which candidates need another process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from xbackend.analysis.comparison import generations
from xbackend.analysis.family import Family
from xbackend.analysis.statistics import FEWEST, Ratio, Verdict, time_of
from xbackend.measure.candidates import Candidate
from xbackend.results import naming

FAR = 1.5  # times as slow as the other: no two processes of one candidate differ by so much, so one of each is enough
# Level of the statements that end measuring: a test after each process, stopping at the first finding, is wrong more
# often than one test at the end (docs/measurement.md has how often).
STOP = 0.995
# Second processes of a case that give the spread of all its candidates, with the effect of generations separated.
SPREAD = 5
KindOf = Callable[[Candidate], Any]  # by which candidates of one backend are compared


def unanswered(candidates: Sequence[Candidate], baseline: str | None, most: int) -> list[Candidate]:
    """The candidates of open comparisons that have fewer than ``most`` processes.

    Compared are: several numbers of devices of one backend with the fewest; revisions with each other; else all with
    the ``baseline``, where it is given, and with the fastest. A comparison is open until its two are told apart or
    shown to be equal; those of `spreading` are open, too. A candidate without a comparison is measured `FEWEST` times.
    """
    found = set(spreading(candidates, baseline))
    parts = list(_by_case(candidates))
    for part in parts:
        pairs = _ratios(part, baseline, STOP ** (1 / len(parts)))
        found |= {c for pair, ratio in pairs.items() if ratio.verdict is Verdict.NOT_TOLD_APART for c in pair}
        found |= {c for c in part if not pairs and len(c.processes) < FEWEST}
    return [candidate for candidate in candidates if candidate in found and len(candidate.processes) < most]


def spreading(candidates: Sequence[Candidate], baseline: str | None) -> list[Candidate]:
    """The candidates whose next processes show how the processes of a case spread, where that is not known yet.

    Of a case with more than `SPREAD` candidates they are the `SPREAD` fastest; of a smaller one, the pairs near each
    other, and the nearest pair in any case.
    """
    found: list[Candidate] = []
    for part in _by_case(candidates):
        found_of = _ratios(part, baseline, STOP)
        ratios = {pair: ratio for pair, ratio in found_of.items() if ratio.verdict is Verdict.UNKNOWN}
        fastest = sorted(part, key=lambda candidate: time_of(candidate.times))
        near = [pair for pair, ratio in ratios.items() if 1 / FAR < ratio.value < FAR]
        nearest = min(ratios, key=lambda pair: max(ratios[pair].value, 1 / ratios[pair].value), default=())
        found += fastest[:SPREAD] if ratios and len(part) > SPREAD else {c for pair in (*near, nearest) for c in pair}
    return found


def without_verdict(candidates: Sequence[Candidate], baseline: str | None) -> bool:
    """Whether a comparison has too few processes for any verdict."""
    ratios = [ratio for part in _by_case(candidates) for ratio in _ratios(part, baseline, STOP).values()]
    return any(ratio.verdict is Verdict.UNKNOWN for ratio in ratios)


def _ratios(part: Sequence[Candidate], baseline: str | None, level: float) -> dict[tuple[Candidate, Candidate], Ratio]:
    family = Family([c.times for c in part], level, [generations(c.processes) for c in part])
    return {(a, b): family.ratio(part.index(a), part.index(b)) for a, b in _pairs(part, baseline)}


def far_behind(times: Mapping[Candidate, float], baseline: str | None) -> set[Candidate]:
    """The candidates of one case that are far from all that they are compared with, the fastest excepted. ``times`` are
    seconds, known so far."""
    pairs = _pairs(list(times), baseline, times.__getitem__) if times else ()
    near = {c for pair in pairs if 1 / FAR < times[pair[0]] / times[pair[1]] < FAR for c in pair}
    return set(times) - near - {min(times, key=times.__getitem__)} if times else set()


def nearest_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates by their time over the fastest of their case."""
    fastest = {part[0].case.compared: min(time_of(c.times) for c in part) for part in _by_case(candidates)}
    return sorted(candidates, key=lambda c: time_of(c.times) / fastest[c.case.compared])


def _by_case(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """The timed candidates of each workload with the same parameters, whatever the revision."""

    def key(candidate: Candidate) -> str:
        return candidate.case.compared

    timed = sorted((c for c in candidates if c.processes), key=key)
    return (list(part) for _, part in groupby(timed, key))


def _pairs(
    timed: Sequence[Candidate], baseline: str | None, time: Callable[[Candidate], float] = lambda c: time_of(c.times)
) -> Iterator[tuple[Candidate, Candidate]]:
    kinds: tuple[KindOf, KindOf] = (lambda c: c.devices, lambda c: c.case.revision)
    for kind in kinds:
        if len(set(map(kind, timed))) > 1:
            yield from _against_first(timed, kind)
            return
    first = min(timed, key=time)
    for one in dict.fromkeys([*(c for c in timed if baseline in naming.names(c.backend, c.environment)), first]):
        yield from ((one, other) for other in timed if other is not one)


def _against_first(timed: Sequence[Candidate], kind: KindOf) -> Iterator[tuple[Candidate, Candidate]]:
    """Each candidate paired with its backend's first: the one with the fewest devices, or of the first revision."""
    first: dict[tuple[str, str], Candidate] = {}
    for candidate in sorted(timed, key=kind):
        other = first.setdefault((candidate.backend, candidate.environment), candidate)
        if other is not candidate:
            yield other, candidate
