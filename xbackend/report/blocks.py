"""A report as plain data: blocks of plain text, which `markdown` and `html` write.

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
class Hyperlink:
    """Text that leads to an address."""

    text: str
    target: str


Inline = str | Bold | Hyperlink


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
class Notice:
    """Running text that nobody should miss."""

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
    """A picture that lies beside the document, and what it shows in words. A ``large`` one is shown as large as it is
    drawn, and scrolls; others shrink and grow with the page."""

    file: str
    alt: str
    large: bool = False


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are shown when somebody opens them, under words of ours."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class OnPage:
    """Blocks that the page has and the markdown leaves to it; ``what`` they are, in words."""

    what: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the markdown says what it leaves to the page, a file beside it."""

    file: str


@dataclass(frozen=True, slots=True)
class Opened:
    """Where a folded part begins, for a writer."""

    title: str


@dataclass(frozen=True, slots=True)
class Closed:
    """Where a folded part ends, for a writer."""


Block = Heading | Paragraph | Notice | Bullets | Contents | Table | Image | Folded | OnPage | Pointer
Written = Block | Opened | Closed


def paragraph(*parts: Inline) -> Paragraph:
    """A paragraph of these parts, one after the other."""
    return Paragraph(parts)


def bullets(*items: Sequence[Inline]) -> Bullets:
    """A list of points, each of these parts."""
    return Bullets(tuple(map(tuple, items)))


def terms(meanings: Sequence[tuple[str, str]]) -> Bullets:
    """A list of terms, each with what it means."""
    return Bullets(tuple((Bold(term), f": {words}") for term, words in meanings))


def table(headers: Sequence[str], rows: Sequence[Sequence[Inline]], right: Sequence[str] = ()) -> Table:
    """A table from any sequences."""
    return Table(tuple(headers), tuple(tuple(row) for row in rows), frozenset(right))


def tabled(headers: Sequence[str], rows: Sequence[Sequence[Inline]], right: Sequence[str] = ()) -> list[Block]:
    """A table, or nothing where it would have no row."""
    return [table(headers, rows, right)] if rows else []
