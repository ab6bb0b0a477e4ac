"""What a reader should know before believing the numbers: each cause once, with the rows that it concerns.

A warning of a measurement is text with numbers in it. Two that differ in their numbers only are of one cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from xbackend.analysis.comparison import Comparison
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Bold, Inline, points
from xbackend.wording import REST, counted, few, grouped, join, number, plain

_ALL = "all"  # the name where a doubt is of all rows together
_WIDE = 0.10  # of the time: processes that are further apart than this make it doubtful
# A number that stands by itself, or several with commas between them; not the one in `cpu:0` or `float32`.
_NUMBERS = re.compile(r"(?<![\w.:-])\d+(?:\.\d+)?(?:, \d+(?:\.\d+)?)*(?![\w:]|\.\d)")


class Doubt(Struct, frozen=True):
    """A cause in words, with the range of its numbers, and the comparisons and the names of the rows it concerns."""

    cause: str
    concerned: tuple[tuple[str, str], ...]


def doubts(comparisons: Sequence[Comparison]) -> list[Doubt]:
    """Every cause once, those that concern most rows first."""
    every = [(words, (c.label, name)) for c in comparisons for name, words in _said(c)]
    causes = grouped((tuple(_NUMBERS.split(words)), (words, row)) for words, row in every)
    split = (zip(*said, strict=True) for said in causes.values())
    found = [Doubt(_ranged(words), tuple(dict.fromkeys(rows))) for words, rows in split]
    return sorted(found, key=lambda doubt: -len(doubt.concerned))


def _said(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """The warnings of each row of a comparison, and those of all rows together."""
    for row in comparison.rows:
        yield from ((row.name, plain(warning)) for warning in row.measurement.warnings)
    for row in comparison.ranked:
        if row.time and (max(row.times) - min(row.times)) / row.time > _WIDE:
            yield row.name, f"processes differ by more than 10 %: {REST}"
        if row.measurement.parity is None:
            yield row.name, "no comparison with the oracle was recorded"
    apart = comparison.family.between_generations if comparison.ranked else 1.0
    if apart > 1 + _WIDE:
        changed = f"at its slowest the machine took {number(apart)} times as long as at its quickest"
        yield _ALL, f"{changed}, which counts in times, and not in ratios: {REST}"
    hashes = {row.measurement.parity.inputs for row in comparison.rows if row.measurement.parity is not None}
    if len(hashes) > 1:
        yield _ALL, "the candidates were not given the same inputs (their hashes differ): do not compare them"


def _ranged(same: Sequence[str]) -> str:
    """Texts that differ in their numbers only, as one: ``1 to 3 of 15 rounds``."""
    ranges = []
    for places in zip(*map(_NUMBERS.findall, same), strict=True):
        numbers = sorted((number for place in places for number in place.split(", ")), key=float)
        ranges.append(places[0] if len({*places}) == 1 else f"{numbers[0]} to {numbers[-1]}")
    left = iter(ranges)
    return _NUMBERS.sub(lambda _: next(left), same[0])


def gathered(found: Sequence[Doubt]) -> list[str]:
    """A line for each doubt; all noise is one line, each kind of it with its number of rows."""
    noise = [doubt for doubt in found if doubt.cause.endswith(REST)]
    noise = noise if len(noise) > 1 else []
    lines = [f"{text.names(name for _, name in d.concerned)}: {d.cause}" for d in found if d not in noise]
    if noise:
        kinds = []
        for doubt in noise:
            of = counted(len(doubt.concerned), "comparison" if doubt.concerned[0][1] == _ALL else "row")
            kinds.append(f"{doubt.cause.removesuffix(f': {REST}')} ({of})")
        lines.insert(0, f"noise of {len(kinds)} kinds: {'; '.join(kinds)}. What to do: {REST}")
    return lines


def listed(found: Sequence[Doubt], comparisons: int) -> list[AnyBlock]:
    """A point for each doubt; of many rows some by name, the rest counted."""
    said: list[list[Inline]] = []
    for doubt in found:
        names, where = dict.fromkeys(name for _, name in doubt.concerned), {label for label, _ in doubt.concerned}
        there = where.pop() if len(where) == 1 else f"in {len(where)} of {comparisons} comparisons"
        said.append([Bold(doubt.cause), f": {few([*names])}{f' ({there})' if comparisons > 1 else ''}."])
    return points(said)


def row_by_row(found: Sequence[Doubt]) -> list[AnyBlock]:
    """All rows of each doubt."""
    said = []
    for doubt in found:
        names = [f"{label}: {join(dict.fromkeys(each))}" for label, each in grouped(doubt.concerned).items()]
        said.append([f"{doubt.cause} ({counted(len(doubt.concerned), 'row')}): {'; '.join(names)}."])
    return points(said)
