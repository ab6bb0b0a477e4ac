"""Numbers as a reader sees them: units and significant digits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from xbackend import wording
from xbackend.analysis.across import Mean
from xbackend.analysis.statistics import LEVEL, Ratio, Verdict, between
from xbackend.results.schema import Measurement
from xbackend.wording import counted, few, percent, plain

INTERVAL = f"{100 * LEVEL:.0f} % interval"
NOTHING = "–"  # noqa: RUF001 (a dash is what stands in an empty cell)

_TIMES = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


def shorten(text: str, length: int) -> str:
    """At most ``length`` characters, the last an ellipsis where something was cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def number(value: float | None, digits: int = 3) -> str:
    """As `wording.number`; a dash for `None`."""
    return NOTHING if value is None else wording.number(value, digits)


def power(value: float | None) -> str:
    """A number as a power of ten, for errors: ``2.1e-07``; zero, infinities and nan as `number` has them."""
    return f"{value:.1e}" if value is not None and math.isfinite(value) and value else number(value)


def share(part: float) -> str:
    """A part of 1 in percent."""
    return f"{100 * part:.0f} %"


def names(rows: Iterable[str]) -> str:
    """The names of rows, each once; with how many rows these are where some have the same name."""
    every = list(rows)
    once = list(dict.fromkeys(every))
    return few(once) + ("" if len(once) == len(every) else f" ({counted(len(every), 'row')})")


ERROR = "error / passes"  # the relative error against the oracle, and the largest that passes


def error(row: Measurement) -> str:
    """The relative error of a result, beside the largest that passes."""
    parity = row.parity
    return NOTHING if parity is None else f"{power(parity.relative_error)} / {power(parity.tolerance)}"


def ratio(against: Ratio | Mean) -> str:
    """A ratio with its interval, or that there is none."""
    return f"{number(against.value)} ({between(against.low, against.high)})"


def verdict(against: Ratio) -> str:
    """A verdict; where two are not told apart, with the smallest difference that would have been shown."""
    would = f" ({percent(against.smallest)} would be)" if against.verdict is Verdict.NOT_TOLD_APART else ""
    return f"{against.words}{would}"


def smallest(ratios: Iterable[Ratio | None]) -> str:
    """The range of the smallest differences that undecided ratios would have shown, ``47 % to 69 %``; empty of none."""
    would = sorted(r.smallest for r in ratios if r is not None and not r.shown and math.isfinite(r.smallest))
    return " to ".join(dict.fromkeys(percent(factor) for factor in (*would[:1], *would[-1:])))


def time_unit(values: Iterable[float | None]) -> tuple[str, float]:
    """The unit in which the median of these times is read best, and its length in seconds."""
    usable = sorted(v for v in values if v is not None and math.isfinite(v) and v > 0)
    middle = usable[(len(usable) - 1) // 2] if usable else 1.0
    return next((unit for unit in _TIMES if middle >= unit[1]), _TIMES[-1])


def time(value: float | None, unit: tuple[str, float] | None = None) -> str:
    """Seconds as text in ``unit`` (its own best unit if left out), the unit included, with 4 significant digits."""
    if value is None or not math.isfinite(value):
        return number(value)
    name, length = unit or time_unit([value])
    return f"{number(value / length, 4)} {name}"


def moment(stamp: str) -> str:
    """A time stamp as ``2026-01-31 12:00 UTC``; unchanged where it is none, or has no time zone."""
    try:
        parsed = datetime.fromisoformat(stamp)
        return f"{parsed.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if parsed.tzinfo else plain(stamp)
    except (ValueError, OverflowError):
        return plain(stamp)
