"""The search for the smallest: step after step, each to the first smaller program that still shows it.

After *Yesterday, my program worked. Today, it does not. Why?* (Zeller, 1999): halves first, then smaller parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from xbackend.errors import XBackendError
from xbackend.program.smaller import fewer_ops, simpler_numbers, smaller_arrays
from xbackend.program.smaller.example import Compute, Example

Shows = Callable[[Example], bool]
MEMORY = 1 << 24  # elements of all values of a program whose results may be given as numbers


@dataclass(frozen=True)
class Tried:
    """The smallest program found, the number of programs tried, and whether all smaller ones were tried."""

    example: Example
    count: int
    finished: bool


def smallest(
    example: Example,
    shows: Shows,
    compute: Compute,
    *,
    goes_on: Callable[[], bool] = lambda: True,
    on_try: Callable[[int, Example], None] = lambda count, found: None,
    worst: Callable[[], tuple[int, ...]] = tuple,
) -> Tried:
    """The smallest program for which ``shows`` is still true.

    Args:
        example: the program that shows it, with its arguments.
        shows: called with smaller ones; each is tried once. `IndexError` counts as no.
        compute: results of a program; it may raise `XBackendError` and `IndexError`.
        goes_on: asked before each try; the search ends where it is false.
        on_try: called before each try with its number and the smallest so far.
        worst: the index of the worst element in the result of the last program that showed it.
    """
    found, seen, count = example, {example.key}, 0
    while True:
        for candidate in _candidates(found, compute, worst()):
            if candidate is None or candidate.key in seen or candidate.cost >= found.cost:
                continue
            if not goes_on():
                return Tried(found, count, False)
            seen.add(candidate.key)
            count += 1
            on_try(count, found)
            if _still(shows, candidate):
                found = candidate
                break
        else:
            return Tried(found, count, True)


def _still(shows: Shows, candidate: Example) -> bool:
    """Whether it shows it. A shorter array may lack an element that an index names: NumPy raises `IndexError` then."""
    try:
        return shows(candidate)
    except IndexError:
        return False


def _candidates(example: Example, compute: Compute, worst: tuple[int, ...]) -> Iterator[Example | None]:
    """Smaller programs, the largest steps first."""
    shape = example.program.values[example.program.outputs[0]].shape
    where = dict(zip(shape, worst, strict=False)) if len(worst) == len(shape) else {}
    yield from fewer_ops.without_state(example)
    yield from fewer_ops.other_ends(example)
    yield from smaller_arrays.shortest(example, where)
    yield from _given(example, compute)
    yield from smaller_arrays.shorter(example, where)
    yield from chain(fewer_ops.operands(example), fewer_ops.undone(example))
    yield from smaller_arrays.scalars(example)
    yield from simpler_numbers.simpler(example)


def _given(example: Example, compute: Compute) -> Iterator[Example | None]:
    """Numbers in place of results, where they can be computed and kept."""
    if sum(value.aval.size for value in example.program.values) > MEMORY:
        return
    try:
        with np.errstate(all="ignore"):
            known = example.computed(compute)
    except (XBackendError, IndexError):
        return
    yield from fewer_ops.numbers_given(example, known)
