"""What to type in PyMC or PyTensor for a comparison of one of their graphs: the fastest of their own modes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xbackend.analysis.comparison import Comparison, Row
from xbackend.analysis.payoff import total
from xbackend.analysis.statistics import Verdict
from xbackend.backends import registry
from xbackend.results.naming import GRADIENT
from xbackend.wording import few, grouped, join, number

_EACH = 2  # graphs with a time each
CALLS = 1000  # of a sampler: its first draws of a chain


def of_pymc(comparison: Comparison) -> bool:
    """Whether a comparison is of a model of PyMC."""
    return str(comparison.parameters.get("graph", "")).startswith("PyMC")


def in_pymc(comparisons: Iterable[Comparison]) -> Iterator[str]:
    """For each model's log-density with its gradient (samplers call this function): what chooses the fastest of PyMC's
    own modes, and the modes that may be as fast. Then the mode that ends its first `CALLS` calls first."""
    for comparison in comparisons:
        ways = _ways(comparison)
        if not of_pymc(comparison) or not comparison.workload.endswith(GRADIENT) or not ways:
            continue
        first, beside = ways[0], _beside(ways, comparison)
        time = number(1e6 * (first.time or 0.0))
        yield f'in PyMC type compile_kwargs={{"mode": "{_mode(first)}"}} ({time} us for a call{beside})'
        totals = [(seconds, row) for row in ways if (seconds := total(row, CALLS)) is not None]
        if len(totals) == len(ways) > 1:
            least, row = min(totals, key=lambda one: one[0])
            yield f'for {number(CALLS)} calls "{_mode(row)}" takes least ({number(least)} s, with import and compiling)'


def in_script(comparisons: Iterable[Comparison]) -> Iterator[str]:
    """For graphs of a framework with modes: what chooses the fastest of its own modes, each mode once."""
    of = [(c, ways) for c in comparisons if (ways := [row for row in _ways(c) if _typed(row, c)])]
    for typed, found in grouped((_typed(ways[0], c), (c, ways)) for c, ways in of).items():
        labels = [f"{c.label}: " if len(of) > 1 else "" for c, _ in found]
        times = [f"{number(1e6 * (ways[0].time or 0.0))} us for a call{_beside(ways, c)}" for c, ways in found]
        each = "; ".join(map("".join, zip(labels, times, strict=True)))
        yield f"{typed} ({each if len(found) <= _EACH else f'for {few([c.label for c, _ in found])}'})"


def _typed(row: Row, comparison: Comparison) -> str:
    """What chooses a row's mode in a script of the graph's framework; empty for a row of another framework."""
    alone = registry.get(row.measurement.backend).alone
    if alone is None or not str(comparison.parameters.get("graph", "")).startswith(f"{alone.framework} "):
        return ""
    return f'in your script type {alone.before}, or mode="{_mode(row)}" in {alone.framework}.function'


def _ways(comparison: Comparison) -> list[Row]:
    """The rows of PyMC's and PyTensor's own modes, the fastest first."""
    return [row for row in comparison.ranked if _mode(row)]


def _beside(ways: Sequence[Row], comparison: Comparison) -> str:
    """The modes that may be as fast as the first one, in words."""
    against = [(row, comparison.ratio(ways[0], row)) for row in ways[1:]]
    equal = [_mode(row) for row, ratio in against if ratio is None or ratio.verdict is not Verdict.FASTER]
    return f", and {join(dict.fromkeys(equal))} may be as fast" if equal else ""


def _mode(row: Row) -> str:
    entry = registry.REGISTRY.get(row.measurement.backend)  # a backend with options is no mode of PyMC's
    return entry.pymc if entry is not None else ""
