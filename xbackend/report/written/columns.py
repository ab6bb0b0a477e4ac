"""Tables and sentences of plain text that fit a width: names are wrapped between their parts, numbers never cut.

Not rich: its tables wrap at blanks only, narrow all columns alike, and have no titles of groups.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from xbackend.wording import plain

WIDTH = 80  # of a table, where nothing says how wide lines may be
_GAP, _SIDES = "  ", "{:{}{}}"  # between columns; a text to a side in a width
_LEAST = 8  # characters of a column that has to be cut
_PART = re.compile(r"\s*(?:\([^()\n]*\)|\[?[^\s\[]+|\[)(?: on \d+$|\s+$)?")  # what is in parentheses is one


def lines(
    headers: Sequence[str],
    groups: Sequence[tuple[str, Sequence[Sequence[str]]]],
    width: int | None,
    right: Sequence[str] = (),
) -> list[str]:
    """A table of rows in groups, each below its title if it has one; lines of ``width`` at most, `None`: any.

    Wide cells are wrapped at blanks and before ``[``, those of the first column before others; a header also at its
    line breaks. Columns in ``right`` hold numbers.
    """
    columns = list(zip(headers, *(row for _, rows in groups for row in rows), strict=True))
    widths = [max(map(len, column)) for column in columns]
    if width is not None:
        heads = [max(map(len, _parts(header))) for header in headers]
        widths = [max([head, *map(len, column[1:])]) for head, column in zip(heads, columns, strict=True)]
        _narrow(widths, [max(len(part) for cell in column for part in _parts(cell)) for column in columns], width)
        _narrow(widths, [_LEAST] * len(widths), width)

    def laid(cells: Sequence[str]) -> list[str]:
        shown = zip_longest(*map(_cell, cells, widths), fillvalue="")
        return [_GAP.join(map(_SIDES.format, texts, sides, widths)).rstrip() for texts in shown]

    sides = [">" if header in right else "<" for header in headers]
    found = [*laid(headers), "-" * min(sum(widths) + len(_GAP) * (len(widths) - 1), width or 10**6)]
    for title, rows in groups:
        found += wrapped(title, width) if title else []
        found += [line for row in rows for line in laid(row)]
    return found


def records(rows: Sequence[Mapping[str, str]], width: int | None, right: Sequence[str] = ()) -> list[str]:
    """A table of rows by the names of their columns, of any text; nothing without one."""
    return lines([*rows[0]], [("", [[*map(plain, row.values())] for row in rows])], width, right) if rows else []


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """A sentence as lines of ``width`` at most, but for words that are longer; those after the first are indented."""
    if width is None:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _narrow(widths: list[int], least: Sequence[int], width: int) -> None:
    """Take the excess from the first column, then from the last one and its predecessors."""
    for i in (0, *reversed(range(1, len(widths)))):
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        if excess > 0:
            widths[i] = max(min(least[i], widths[i]), widths[i] - excess)


def _parts(cell: str) -> list[str]:
    """The parts of a cell, between which it can be wrapped."""
    return [part.strip() for part in _PART.findall(cell)] or [""]


def _cell(cell: str, width: int) -> list[str]:
    """The lines of a cell; a part that is longer than the column is cut into several."""
    found = [""]
    for part in _PART.findall(cell):
        if len(found[-1] + part) <= width and "\n" not in part:
            found[-1] += part
        else:
            rest = part.strip()
            found += [rest[at : at + width] for at in range(0, len(rest), width)]
    return [line for line in found if line] or [""]
