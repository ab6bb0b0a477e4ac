"""In which release something changed: which one to look at next, and what a comparison of two says of it.

Verdicts are those of `statistics.ratio`, of two that were measured in one session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from xbackend.analysis.comparison import Row, compared, compilation
from xbackend.analysis.statistics import Ratio, Verdict, noise_floor, ratio
from xbackend.results.schema import Pair, Results, counting

_CONTRARY = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


class What(StrEnum):
    """What may have changed."""

    TIME = "time"  # of a call
    COMPILE = "compile"  # from tracing to the end of the first call
    NUMBERS = "numbers"  # what it returns


def search(count: int, changed: Callable[[int], bool | None]) -> tuple[int, int]:
    """The last of ``count`` in their order that is as the first, and the first known one that is not.

    Number 0 is as the first and ``count - 1`` is not. ``changed(i)`` says whether number i is not; `None` where that
    cannot be found out, and the nearest one to the middle takes its place. All between the two that are returned are of
    that kind. About log2(count) are asked for where none is.
    """
    low, high, unknown = 0, count - 1, set[int]()
    while inner := [i for i in range(low + 1, high) if i not in unknown]:
        middle = min(inner, key=lambda i: abs(2 * i - low - high))
        answer = changed(middle)
        if answer is None:
            unknown.add(middle)
        elif answer:
            high = middle
        else:
            low = middle
    return low, high


def ends(count: int, works: Callable[[int, int], tuple[bool, bool]]) -> tuple[int, int] | None:
    """The outermost two of ``count`` that ``works(low, high)`` says work; `None` without two.

    Where one does not, the next is taken, then the one 2, 4, 8... further on, as old releases fail by the dozen.
    """
    low, high, up, down = 0, count - 1, 1, 1
    while low < high:
        first, last = works(low, high)
        if first and last:
            return low, high
        if not first:
            low, up = low + up, 2 * up
        if not last:
            high, down = high - down, 2 * down
    return None


def changed(one: Ratio, whole: Ratio) -> bool | None:
    """Whether a release has the change that is ``whole`` between the ends, by its own ratio to the first.

    It has where the verdict is the same. It has not where that is the contrary, or a change as large as the whole one
    would have been shown. Else nobody knows: `None`.
    """
    if one.verdict is whole.verdict:
        return True
    if one.verdict is _CONTRARY[whole.verdict] or one.smallest < max(whole.value, 1 / whole.value):
        return False
    return None


def change(results: Results, head: Row, base: Row, what: What) -> Ratio | None:
    """The time, or the time of compilation, of a row over that of another one of the same session; `None` without."""
    if what is What.TIME:
        return compared(head, base, noise_floor(results.pairs, head.measurement))
    if not (head.medians and base.medians and head.compilations and base.compilations):
        return None
    floor = noise_floor([_compiled(pair, base, results.order) for pair in results.pairs])
    return ratio(head.compilations, base.compilations, floor=floor.factor)


def _compiled(pair: Pair, base: Row, order: Sequence[str]) -> Pair:
    """An A/A pair of the baseline with the seconds of compilation in place of those of a call."""
    halves: dict[str, list[float]] = {}
    for process in counting(pair.processes):
        halves.setdefault(order[process.order], []).extend(compilation([process]))
    first, second = [list(base.compilations), *halves.values()][-2:]
    return Pair(
        workload=pair.workload, parameters=pair.parameters, backend=pair.backend, devices=pair.devices, first=first,
        second=second, environment=pair.environment,
    )  # fmt: skip
