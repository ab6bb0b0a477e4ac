"""The documents' tables of differences between backends."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def rows(document: str, heading: str) -> list[dict[str, str]]:
    """The rows of the table whose first column has this heading, each by column names."""
    lines = iter((DOCS / document).read_text().splitlines())
    columns = next(cells for cells in map(_cells, lines) if cells and cells[0] == heading)
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            return found
        found.append(dict(zip(columns, _cells(line), strict=True)))
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
