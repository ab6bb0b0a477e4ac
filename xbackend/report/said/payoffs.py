"""First result, steady call, and after how many calls a slower compiler has paid for itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xbackend.analysis.answer import named
from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.payoff import PayOff, first_result, pay_off, quickest, total
from xbackend.analysis.sampling import CALLS, of_pymc
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, paragraph, records
from xbackend.wording import number

READING = (
    "The first result takes the import of the framework, trace, lower and the first call, a call what it takes after "
    "that: means over the processes that compiled with an empty cache on disk, or (from cache) found there what "
    "another had compiled. A slower compiler that is shown to be faster once compiled overtakes the quickest start "
    "after so many calls; in parentheses those at which it is not shown which of the two has taken longer "
    f"({text.INTERVAL})."
)
_CACHED, _SAMPLED = "from cache", f"with {number(CALLS)} calls"
_AFTER = f"has paid for itself after ({text.INTERVAL})"


def across(comparisons: Sequence[Comparison]) -> list[AnyBlock]:
    """The quickest start of each comparison against its smallest time; empty where no first result is known."""
    rows = []
    for comparison in comparisons:
        if (quick := quickest(comparison)) is not None:
            last = comparison.ranked[0]
            start = {"first to have a result": named(quick, comparison), "in": text.time(first_result(quick))}
            then = {"smallest time": named(last, comparison), "a call": text.time(last.time)}
            end = {"first result in": text.time(first_result(last)), _AFTER: _after(last, quick, comparison)}
            rows.append({"comparison": comparison.label, **start, **then, **end})
    return [paragraph(READING), *records(rows, right=("in", "a call", "first result in"))] if rows else []


def each(comparison: Comparison) -> list[AnyBlock]:
    """A line for each row with a time; empty where no first result is known."""
    quick, rows = quickest(comparison), []
    for row in sorted(comparison.ranked, key=lambda row: first_result(row) or math.inf):
        if quick is not None:
            first = {"first result": first_result(row), _CACHED: first_result(row, from_cache=True), "a call": row.time}
            if of_pymc(comparison):
                first[_SAMPLED] = total(row, CALLS)
            times = {name: text.time(seconds) for name, seconds in first.items()}
            rows.append({"backend": named(row, comparison), **times, _AFTER: _after(row, quick, comparison)})
    return records(rows, right=("first result", _CACHED, "a call", _SAMPLED))


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
    whole = math.ceil(found.calls)
    end = number(math.ceil(found.high)) if math.isfinite(found.high) else "any number"
    between = "no interval" if math.isnan(found.low) else f"{number(math.ceil(found.low))} to {end}"
    return f"{number(whole)} call{'' if whole == 1 else 's'} ({between})"
