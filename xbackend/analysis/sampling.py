"""What to type in PyMC, where a comparison is of a model of it: one of the ways that PyMC itself can compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.statistics import Verdict
from xbackend.backends import registry
from xbackend.results.naming import GRADIENT
from xbackend.wording import join, number


def in_pymc(comparisons: Iterable[Comparison]) -> Iterator[str]:
    """For each model's log-density with its gradient, which samplers call, the fastest of PyMC's own ways and what
    chooses it, with the other ways that may be as fast."""
    for comparison in comparisons:
        if not str(comparison.parameters.get("from", "")).startswith("PyMC"):
            continue
        ways = [row for row in comparison.ranked if _mode(row)]
        if not comparison.workload.endswith(GRADIENT) or not ways:
            continue
        first, *others = ways
        equal = [row for row in others if not _slower(comparison, row, first)]
        beside = f", and {join([_mode(row) for row in equal])} may be as fast" if equal else ""
        time = number(1e6 * (first.time or 0.0))
        yield f'in PyMC type compile_kwargs={{"mode": "{_mode(first)}"}} ({time} us for a call{beside})'


def _mode(row: Row) -> str:
    entry = registry.REGISTRY.get(row.measurement.backend)  # one with options is none of PyMC's ways
    return entry.pymc if entry is not None else ""


def _slower(comparison: Comparison, row: Row, first: Row) -> bool:
    """Whether a row is shown to be slower than the first."""
    ratio = comparison.ratio(first, row)
    return ratio is not None and ratio.verdict is Verdict.FASTER
