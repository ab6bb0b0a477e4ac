"""What to type in PyMC, where a comparison is of a model of it: one of the ways that PyMC itself can compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.payoff import total
from xbackend.analysis.statistics import Verdict
from xbackend.backends import registry
from xbackend.results.naming import GRADIENT
from xbackend.wording import join, number

CALLS = 1000  # of a sampler: its first draws of a chain


def of_pymc(comparison: Comparison) -> bool:
    """Whether a comparison is of a model of PyMC."""
    return str(comparison.parameters.get("graph", "")).startswith("PyMC")


def in_pymc(comparisons: Iterable[Comparison]) -> Iterator[str]:
    """For each model's log-density with its gradient, which samplers call, the fastest of PyMC's own ways and what
    chooses it, with the other ways that may be as fast; and the one whose first `CALLS` calls are there first."""
    for comparison in comparisons:
        ways = [row for row in comparison.ranked if _mode(row)]
        if not of_pymc(comparison) or not comparison.workload.endswith(GRADIENT) or not ways:
            continue
        first, *others = ways
        against = [(row, comparison.ratio(first, row)) for row in others]
        equal = [_mode(row) for row, ratio in against if ratio is None or ratio.verdict is not Verdict.FASTER]
        beside = f", and {join(equal)} may be as fast" if equal else ""
        time = number(1e6 * (first.time or 0.0))
        yield f'in PyMC type compile_kwargs={{"mode": "{_mode(first)}"}} ({time} us for a call{beside})'
        totals = [(seconds, row) for row in ways if (seconds := total(row, CALLS)) is not None]
        if len(totals) == len(ways) > 1:
            least, row = min(totals, key=lambda one: one[0])
            yield f'for {number(CALLS)} calls "{_mode(row)}" takes least ({number(least)} s, with import and compiling)'


def _mode(row: Row) -> str:
    entry = registry.REGISTRY.get(row.measurement.backend)  # one with options is none of PyMC's ways
    return entry.pymc if entry is not None else ""
