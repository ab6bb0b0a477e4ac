"""Results for a terminal: the answer, tables that fit 80 columns, and doubts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from xbackend.analysis.across import Matrix, matrix
from xbackend.analysis.answer import APART, answer, named
from xbackend.analysis.comparison import Comparison, comparisons
from xbackend.analysis.statistics import Ratio
from xbackend.report.said import across, doubts, ledger, tables, text
from xbackend.report.said.outcomes import Said
from xbackend.report.written import columns
from xbackend.report.written.columns import wrapped
from xbackend.results.schema import Results
from xbackend.wording import grouped, plain

_REASON = 300  # characters of the reason of a missing time; the report has all of them
_GAP, _HEAD, _LONGEST = 2, 10, 20  # characters: between columns, of a line of a header, of its longest part


def lines(results: Results, baseline: str | None = None, width: int | None = None, wide: bool = False) -> list[str]:
    """The answer, from which size several devices pay, the matrix of several workloads, the table of few comparisons,
    rows without a time, the warnings.

    The table is that of the report, ``wide`` the one with all figures. Lines are at most ``width`` wide; `None`: a
    sentence is one line, a table `columns.WIDTH` wide, a wide one of any width. Raises `UsageError` for a ``baseline``
    that was not measured.
    """
    found = comparisons(results, baseline)
    said, whole = [*wrapped(answer(found), width), ""], matrix(found, baseline is not None)
    if whole is not None:
        if len(found) > APART and (by_size := ledger.by_size(found)):
            said += [*columns.records(by_size, width or columns.WIDTH, ["devices"]), ""]
        said += [*matrix_lines(whole, width or columns.WIDTH), "", *wrapped(across.reading(whole), width), ""]
        if means := across.means(whole):
            table = columns.records(means, width or columns.WIDTH, [*means[0]][2:])
            said += [*table, "", *wrapped(across.READING_MEANS, width), ""]
    if found and wide:
        rows = all_columns(found)
        said += [*columns.records(rows, width, [header for header in rows[0] if header not in tables.WORDS]), ""]
    elif found and (whole is None or len(found) <= APART):
        said += [*_table(found, tables.against(found, baseline is not None), width or columns.WIDTH), ""]
    below = [*_not_measured(found), *(f"warning: {plain(warning)}" for warning in results.settings.warnings or ())]
    below += [f"warning: {line}" for line in doubts.gathered(doubts.doubts(found))]
    return [*said, *(line for each in below for line in wrapped(each, width, "  "))]


def outcomes(said: Said[Any], width: int | None) -> list[str]:
    """The lines about trainings, or about jobs on clusters."""
    table, notes = columns.records(said.rows, width or columns.WIDTH, said.right), (*said.ended.failures, *said.notes)
    return [*wrapped(said.answer, width), *table, *(line for note in notes for line in wrapped(note, width, "  "))]


def all_columns(found: Sequence[Comparison]) -> list[dict[str, str]]:
    """The rows of the report's table of all figures, over all workloads."""
    return [{"workload": each.label, **cells} for each in found for cells in tables.figures(each)]


def _table(found: Sequence[Comparison], against: str, width: int) -> list[str]:
    telling = any(named(row, each) != row.label for each in found for row in each.rows)
    known = any(row.measurement.parity is not None for each in found for row in each.rows)
    headers = ["backend on devices" if telling else "backend", "time", against, *[text.ERROR] * known, "verdict"]
    groups = []
    for each in found:
        unit, rows = text.time_unit(row.time for row in each.rows), []
        judged = tables.judged(each, against)
        for row, said, verdict, ratio in judged:
            name = f"{tables.shown(row)} on {row.devices}" if telling else tables.shown(row)
            cells = [text.time(row.time, unit), said, *[text.error(row.measurement)] * known]
            rows.append([name, *cells, verdict if ratio is None else ratio.words])
        groups.append((_title(each, found, [ratio for *_, ratio in judged]), rows))
    return columns.lines(headers, groups, width, headers[1:-1])


def _title(comparison: Comparison, found: Sequence[Comparison], ratios: Sequence[Ratio | None]) -> str:
    """The comparison, its baseline if the header lacks it, and the smallest difference that would be shown."""
    said = []
    if comparison.baseline is not None and len({each.baseline and each.baseline.name for each in found}) > 1:
        said.append(f"baseline: {named(comparison.baseline, comparison)}")
    if between := text.smallest(ratios):
        said.append(f"smallest difference that could be shown: {between}")
    return (comparison.title if len(found) == 1 else comparison.label) + (f" ({'; '.join(said)})" if said else "")


def _not_measured(found: Sequence[Comparison]) -> list[str]:
    rows = [row for each in found for row in each.rows if row.measurement.status != "ok"]
    causes = grouped(((row.measurement.status, tables.reason(row.measurement)), row.name) for row in rows)
    return [f"{state}: {text.names(names)}: {text.shorten(why, _REASON)}" for (state, why), names in causes.items()]


def matrix_lines(matrix: Matrix, width: int) -> list[str]:
    """The matrix in bands: as many columns side by side as ``width`` has room for, each band with all workloads."""
    shown = across.lines(matrix)
    marked = [any(mark for _, mark in column) for column in zip(*(cells for _, cells in shown), strict=True)]
    # Numbers stand below each other, whatever their marks.
    rows = [[words + (mark or " " * marked[j]) for j, (words, mark) in enumerate(cells)] for _, cells in shown]
    heads = ["\n".join(_head(column)) for column in matrix.columns]
    widths = [max(map(len, [*heads[j].split("\n"), *column])) for j, column in enumerate(zip(*rows, strict=True))]
    titles = [*_titles(matrix, max(width // 2 - 2, _HEAD)), *(("", label) for label, _ in shown[len(matrix.lines) :])]
    found: list[str] = []
    for band in _bands(widths, width - max(len("workload"), *(len(label) for _, label in titles))):
        lined = [(group, [label, *(row[j] for j in band)]) for (group, label), row in zip(titles, rows, strict=True)]
        groups = [(group, [row for _, row in each]) for group, each in groupby(lined, key=lambda row: row[0])]
        found += [""] if found else []
        found += columns.lines(["workload", *(heads[j] for j in band)], groups, width, heads)
    return found


def _titles(matrix: Matrix, most: int) -> list[tuple[str, str]]:
    """The label of each line, below its workload where that has several."""
    names = [plain(comparison.workload) for comparison in matrix.comparisons]
    labels = [comparison.label for comparison in matrix.comparisons]
    if len(set(names)) == len(names):
        return [("", text.shorten(label, most)) for label in labels]
    rest = [label.removeprefix(name).strip() or "as it is" for name, label in zip(names, labels, strict=True)]
    return [(text.shorten(n, 2 * most), f"  {text.shorten(label, most)}") for n, label in zip(names, rest, strict=True)]


def _head(column: str) -> list[str]:
    parts = [""]
    for part in re.split(r"(?=[-\[( ])", column):
        if parts[-1] and len(parts[-1]) + len(part) > _HEAD:
            parts.append("")
        parts[-1] += part
    return [text.shorten(part.strip(), _LONGEST) for part in parts]


def _bands(widths: Sequence[int], room: int) -> list[list[int]]:
    """The columns that stand beside each other: one at least, and as many as there is room for."""
    bands: list[list[int]] = []
    for j, width in enumerate(widths):
        if not bands or sum(_GAP + widths[i] for i in bands[-1]) + _GAP + width > room:
            bands.append([])
        bands[-1].append(j)
    return bands
