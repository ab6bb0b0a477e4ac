"""Lines of code as ruff formats them, at its default width of 88 columns.

Ruff's style is Black's: a statement that is too long is broken at its last bracket. The items of a call go on one line
of their own if they fit, else on a line each, as the items of a list always do
(https://docs.astral.sh/ruff/formatter/black/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

WIDTH = 88
INDENT = "    "


@dataclass(frozen=True, slots=True)
class Bracket:
    """Code that ends with a bracket. ``collection``: a list or a tuple, else a call. A ``bare`` tuple has its brackets
    only if it is broken over lines."""

    opening: str
    items: tuple[str | Bracket, ...]
    closing: str
    collection: bool = False
    bare: bool = False
    separator: str = ", "

    def __str__(self) -> str:
        items = self.separator.join(map(str, self.items))
        return items if self.bare else f"{self.opening}{items}{self.closing}"


@dataclass(slots=True)
class Statement:
    """One statement. ``device`` is its device scope."""

    text: str
    end: Bracket | None = None  # the statement's last bracket, behind the text
    device: str = ""


@dataclass(slots=True)
class Block:
    """A compound statement: its first line, and the lines in it."""

    head: Statement
    body: list[Statement | Block] = field(default_factory=list)
    function: bool = False  # with blank lines around it


def written(statements: Sequence[Statement | Block], depth: int = 0) -> list[str]:
    lines: list[str] = []
    before = False  # whether the statement above is a function
    for number, statement in enumerate(statements):
        function = isinstance(statement, Block) and statement.function
        if (before or function) and number:
            lines.append("")
        if isinstance(statement, Block):
            lines += [*broken(statement.head, depth), *written(statement.body, depth + 1)]
        else:
            lines += broken(statement, depth)
        before = function
    return lines


def broken(line: Statement, depth: int) -> list[str]:
    space = INDENT * depth
    flat = f"{space}{line.text}{line.end or ''}".rstrip()
    if line.end is None or (len(flat) <= WIDTH and "\n" not in flat):
        return [flat]
    return _opened(line.text, line.end, depth, "")


def _opened(text: str, end: Bracket, depth: int, behind: str) -> list[str]:
    space, inner = INDENT * depth, INDENT * (depth + 1)
    items = end.separator.join(map(str, end.items))
    comma = end.separator.strip()
    first, last = f"{space}{text}{end.opening}", f"{space}{end.closing}{behind}"
    if not end.collection and len(inner) + len(items) <= WIDTH:
        return [first, f"{inner}{items}", last]
    lines = [first]
    for item in end.items:
        flat = f"{inner}{item}{comma}"
        if len(flat) > WIDTH and isinstance(item, Bracket):
            lines += _opened("", item, depth + 1, comma)
        else:
            lines.append(flat)
    return [*lines, last]
