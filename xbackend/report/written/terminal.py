"""What a terminal shows of results: the answer, a table that fits 80 columns, and what makes it doubtful."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xbackend.analysis.across import Matrix, matrix
from xbackend.analysis.answer import APART, answer, devices_compared, named
from xbackend.analysis.comparison import Comparison, Row, comparisons
from xbackend.analysis.scaling import Scaling, scalings
from xbackend.analysis.statistics import Ratio
from xbackend.report.said import across as cells
from xbackend.report.said import tables, text
from xbackend.report.said.doubts import doubts
from xbackend.report.written import columns
from xbackend.results.schema import Results
from xbackend.wording import counted, few, plain

_REASON = 300  # characters of why something has no time; the report has all of them


def lines(results: Results, baseline: str | None = None, width: int | None = None, wide: bool = False) -> list[str]:
    """The answer, a blank line, of several workloads their matrix, the table (of more than a few comparisons the matrix
    is all of it), and below it what has no time and the warnings, each cause once.

    Ratios are to one device of the same backend where several numbers of devices were compared and no ``baseline`` is
    given, else to the baseline, as in the report. ``wide`` has all columns of the report's tables. Lines are at most
    ``width`` wide; `None`: a sentence is one line, a table `columns.WIDTH` wide, a wide one as wide as it is. Raises
    `UsageError` for a baseline that was not measured.
    """
    found = comparisons(results, baseline)
    said = [*columns.wrapped(answer(found), width), ""]
    across = matrix(found, baseline is not None)
    if across is not None:
        said += _across(across, width)
    if found and (wide or across is None or len(found) <= APART):
        said += [*_table(found, baseline is not None, width, wide), ""]
    below = [*_not_measured(found), *_warnings(results, found)]
    return [*said, *(line for each in below for line in columns.wrapped(each, width, "  "))]


def _across(across: Matrix, width: int | None) -> list[str]:
    """The matrix, what all of its lines say together, and what the numbers mean."""
    headers, rows = cells.means(across)
    said = [*cells.lines(across, width or columns.WIDTH), "", *columns.wrapped(cells.reading(across), width), ""]
    if not rows:
        return said
    table = columns.lines(headers, [("", rows)], width or columns.WIDTH, headers[2:])
    return [*said, *table, "", *columns.wrapped(cells.READING_MEANS, width), ""]


def all_columns(found: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    """The headers and the rows of the report's tables, over all workloads."""
    rows = [[each.label, *row] for each in found for row in tables.comparison_rows(each)]
    return ["workload", *tables.HEADERS], [[plain(cell) for cell in row] for row in rows]


def _table(found: Sequence[Comparison], asked: bool, width: int | None, wide: bool) -> list[str]:
    if wide:
        headers, cells = all_columns(found)
        return columns.lines(headers, [("", cells)], width, tables.NUMBERS)
    against = tables.SPEEDUP if not asked and devices_compared(found) else text.to_baseline(found)
    telling = any(named(row, each) != row.label for each in found for row in each.rows)
    known = any(row.measurement.parity is not None for each in found for row in each.rows)
    error = [text.ERROR] if known else []
    headers = ["backend on devices" if telling else "backend", "time", against, *error, "verdict"]
    groups = []
    for each in found:
        unit = text.time_unit(row.time for row in each.rows)
        several = {id(s.many): s for s in scalings(each)} if against is tables.SPEEDUP else None
        rows, ratios = [], []
        for row in [*each.ranked, *(row for row in each.rows if not row.times)]:
            ratio, verdict, judged = _judged(row, each, several)
            name = f"{row.label} on {row.devices}" if telling else row.label
            rows.append([name, text.time(row.time, unit), ratio, *[text.error(row.measurement)] * known, verdict])
            ratios.append(judged)
        groups.append((_title(each, found, ratios), rows))
    return columns.lines(headers, groups, width or columns.WIDTH, headers[1:-1])


def _title(comparison: Comparison, found: Sequence[Comparison], ratios: Sequence[Ratio | None]) -> str:
    """What was compared, the baseline if the header lacks it, and the smallest difference that would be shown."""
    title = comparison.title if len(found) == 1 else comparison.label
    said = []
    if comparison.baseline is not None and len({each.baseline and each.baseline.name for each in found}) > 1:
        said.append(f"baseline: {named(comparison.baseline, comparison)}")
    if between := text.smallest(ratios):
        said.append(f"smallest difference that could be shown: {between}")
    return f"{title} ({'; '.join(said)})" if said else title


def _judged(row: Row, comparison: Comparison, several: Mapping[int, Scaling] | None) -> tuple[str, str, Ratio | None]:
    """The ratio of a row and its verdict, in words, and the ratio: to the baseline, or with the rows of ``several``
    devices, by their ids, to one device of the same backend."""
    scaling = several.get(id(row)) if several is not None else None
    if several is None:
        ratio, same = comparison.against_baseline(row), "baseline" if row is comparison.baseline else ""
    else:
        ratio = scaling.ratio if scaling is not None else None
        same = "one device" if row.times and row.devices == 1 else ""
    if same:
        return "1", same, None
    if ratio is None:
        return text.NOTHING, text.NOTHING if row.times else row.measurement.status, None
    return text.speedup(scaling) if scaling else text.ratio(ratio), ratio.words, ratio


def _not_measured(found: Sequence[Comparison]) -> list[str]:
    """Why rows have no time, each reason once."""
    why: dict[tuple[str, str], list[Row]] = {}
    for row in (row for each in found for row in each.rows if row.measurement.status != "ok"):
        why.setdefault((row.measurement.status, tables.reason(row.measurement)), []).append(row)
    return [
        f"{status}: {_names([row.name for row in rows])}: {text.shorten(reason, _REASON)}"
        for (status, reason), rows in why.items()
    ]


def _warnings(results: Results, found: Sequence[Comparison]) -> list[str]:
    said = [plain(warning) for warning in results.settings.warnings or ()]
    said += [f"{_names([name for _, name in doubt.concerned])}: {doubt.cause}" for doubt in doubts(found)]
    return [f"warning: {each}" for each in said]


def _names(rows: Sequence[str]) -> str:
    names = list(dict.fromkeys(rows))
    return few(names) if len(names) == len(rows) else f"{few(names)} ({counted(len(rows), 'row')})"
