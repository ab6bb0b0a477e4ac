"""A report as plain data: blocks of plain text, which `markdown` writes and another writer may.

No text in a block is markup. What is bold or a link says so by its type; a writer escapes all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bold:
    """Text to stress."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """Text that leads to an address."""

    text: str
    target: str


Inline = str | Bold | Link


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the title of the document."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text."""

    parts: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of points."""

    items: tuple[tuple[Inline, ...], ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """The table of contents, made by the writer from the headings of level 2 below it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Every row has as many cells as there are headers; columns in ``right`` hold numbers."""

    headers: tuple[str, ...]
    rows: tuple[tuple[Inline, ...], ...]
    right: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.headers)]
        if wrong:
            raise ValueError(f"a table of {len(self.headers)} columns was given a row of {len(wrong[0])}: {wrong[0]}")


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that lies beside the document, and what it shows in words."""

    file: str
    alt: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph in the language of Mermaid, which forges draw."""

    mermaid: str


Block = Heading | Paragraph | Bullets | Contents | Table | Image | Drawing


def paragraph(*parts: Inline) -> Paragraph:
    """A paragraph of these parts, one after the other."""
    return Paragraph(parts)


def table(headers: Sequence[str], rows: Sequence[Sequence[Inline]], right: Sequence[str] = ()) -> Table:
    """A table from any sequences."""
    return Table(tuple(headers), tuple(tuple(row) for row in rows), frozenset(right))
