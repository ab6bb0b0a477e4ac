"""The rows of a comparison as plain data: numbers in one unit each, for tables of other programs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from xbackend.analysis.comparison import Comparison, comparisons, median_of
from xbackend.analysis.scaling import scalings
from xbackend.analysis.statistics import Ratio
from xbackend.results.schema import Results


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement in numbers. Times are seconds; `None` is what was not measured or cannot be said.

    ``ratio`` is the time over that of the baseline, ``speedup`` the time on one device of the same backend over this
    one. ``low`` and ``high`` are 95 % intervals.
    """

    workload: str
    parameters: dict[str, Any]
    backend: str
    environment: str  # empty: the locked one
    devices: int
    status: str
    reason: str
    seconds: float | None = None
    seconds_low: float | None = None
    seconds_high: float | None = None
    processes: int = 0
    gflops: float | None = None
    is_baseline: bool = False
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    verdict: str = ""
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    relative_error: float | None = None
    tolerance: float | None = None
    compile_seconds: float | None = None
    compile_from_cache_seconds: float | None = None
    memory_bytes: int | None = None
    reused: str = ""  # the run of another session that measured it
    warnings: list[str] = []


def rows(results: Results, baseline: str | None = None) -> list[Figures]:
    """The rows of all comparisons, in the order of the results. Raises `UsageError` for an unknown baseline."""
    return [figures for comparison in comparisons(results, baseline) for figures in _of(comparison)]


def _of(comparison: Comparison) -> Iterator[Figures]:
    speedups = {scaling.many: scaling.ratio for scaling in scalings(comparison)}
    for row in comparison.rows:
        m, ratio, one = row.measurement, comparison.ratio(row, comparison.baseline), speedups.get(row)
        is_baseline = row is comparison.baseline
        known = row.interval or (None, None)
        told: dict[str, Any] = dict(zip(("seconds_low", "seconds_high"), known, strict=True))
        told |= _bounds("ratio", None if is_baseline else ratio) | _bounds("speedup", one and one.inverse)
        if m.parity is not None:
            told |= {"relative_error": m.parity.relative_error, "tolerance": m.parity.tolerance}
        yield Figures(
            workload=m.workload,
            parameters=m.parameters,
            backend=m.backend,
            environment=m.environment,
            devices=m.devices,
            status=m.status,
            reason=m.reason,
            seconds=row.time,
            processes=len(row.times),
            gflops=row.gflops,
            is_baseline=is_baseline,
            verdict="" if ratio is None or is_baseline else ratio.words,
            compile_seconds=median_of(row.compilations),
            compile_from_cache_seconds=median_of(row.from_cache),
            memory_bytes=None if row.memory is None else row.memory.call,
            reused=m.reused,
            warnings=m.warnings,
            **{name: number if number is None or math.isfinite(number) else None for name, number in told.items()},
        )


def _bounds(name: str, ratio: Ratio | None) -> dict[str, float | None]:
    values = (None, None, None) if ratio is None else (ratio.value, ratio.low, ratio.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))
