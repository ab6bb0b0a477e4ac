"""First result, steady call, and after how many calls a slower compiler has paid for itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xbackend.analysis.answer import named
from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.payoff import PayOff, first_result, pay_off, quickest
from xbackend.report.said import tables, text
from xbackend.report.said.blocks import Block, paragraph, table, tabled
from xbackend.wording import number

READING = (
    "The first result takes the import of the framework, trace, lower and the first call, a call what it takes after "
    "that: means over the processes that compiled with an empty cache on disk. From cache: of those that found there "
    "what another process had compiled; without a number the framework leaves nothing there. What compiles more "
    "slowly than the one whose first result is there first, and is shown to be faster once compiled, has overtaken it "
    "after so many calls behind the first; in parentheses the numbers of calls at which it is not shown which of the "
    f"two has taken longer ({text.INTERVAL})."
)
_CACHED = "from cache"
_AFTER = f"has paid for itself after ({text.INTERVAL})"


def across(comparisons: Sequence[Comparison]) -> list[Block]:
    """The quickest start of each comparison against its smallest time; empty where no first result is known."""
    rows = []
    for comparison in comparisons:
        if (quick := quickest(comparison)) is not None:
            last = comparison.ranked[0]
            first = [named(quick, comparison), text.time(first_result(quick))]
            then = [named(last, comparison), text.time(last.time), text.time(first_result(last))]
            rows.append([comparison.label, *first, *then, _after(last, quick, comparison)])
    headers = ("comparison", "first to have a result", "in", "smallest time", "a call", "first result in", _AFTER)
    return [paragraph(READING), table(headers, rows, right=("in", "a call", "first result in"))] if rows else []


def each(comparisons: Sequence[Comparison]) -> list[Block]:
    """A table for each comparison, a line for each row with a time."""
    return tables.each(comparisons, "First result and calls", _table, READING)


def _table(comparison: Comparison) -> list[Block]:
    quick, rows = quickest(comparison), []
    for row in sorted(comparison.ranked, key=lambda row: first_result(row) or math.inf):
        if quick is not None:
            times = [text.time(t) for t in (first_result(row), first_result(row, from_cache=True), row.time)]
            rows.append([named(row, comparison), *times, _after(row, quick, comparison)])
    headers = ("backend", "first result", _CACHED, "a call", _AFTER)
    return tabled(headers, rows, right=headers[1:4])


def _after(row: Row, quick: Row, comparison: Comparison) -> str:
    if row is quick:
        return "its result is there first"
    found = pay_off(row, quick, comparison)
    if found is None:
        return f"not shown to be faster than {named(quick, comparison)}"
    cached = pay_off(row, quick, comparison, from_cache=True) if row.from_cache else None
    return calls(found) + (f"; {_CACHED} {calls(cached)}" if cached is not None else "")


def calls(found: PayOff) -> str:
    """``120 calls (95 to 160)``."""
    if math.isnan(found.low):
        return f"{_count(found.calls)} (no interval)"
    end = "any number" if math.isinf(found.high) else number(math.ceil(found.high))
    return f"{_count(found.calls)} ({number(math.ceil(found.low))} to {end})"


def _count(value: float) -> str:
    whole = math.ceil(value)
    return f"{number(whole)} call{'' if whole == 1 else 's'}"
