"""A report as plain data: blocks of plain text, which `markdown` and `html` write.

No text in a block is markup. What is bold or a link says so by its type; a writer escapes all the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xbackend.wording import plain


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
    """Running text; a ``notice`` is some that nobody should miss."""

    parts: tuple[Inline, ...]
    notice: bool = False


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


Block = Heading | Paragraph | Bullets | Contents | Table | Image | Folded | OnPage | Pointer
Written = Block | Opened | Closed


def paragraph(*parts: Inline) -> Paragraph:
    """A paragraph of these parts, one after the other."""
    return Paragraph(parts)


def bullets(*items: Sequence[Inline]) -> Bullets:
    """A list of points, each of these parts."""
    return Bullets(tuple(map(tuple, items)))


def points(items: Iterable[Sequence[Inline]]) -> list[Block]:
    """A list of points, or nothing where it would have none."""
    there = list(items)
    return [bullets(*there)] if there else []


def terms(meanings: Sequence[tuple[str, str]]) -> Bullets:
    """A list of terms, each with what it means."""
    return Bullets(tuple((Bold(term), f": {words}") for term, words in meanings))


def table(headers: Sequence[str], rows: Sequence[Sequence[Inline]], right: Sequence[str] = ()) -> Table:
    """A table from any sequences."""
    return Table(tuple(headers), tuple(tuple(row) for row in rows), frozenset(right))


def tabled(headers: Sequence[str], rows: Sequence[Sequence[Inline]], right: Sequence[str] = ()) -> list[Block]:
    """A table, or nothing where it would have no row."""
    return [table(headers, rows, right)] if rows else []


def section(title: str, blocks: Sequence[Block], level: int = 2) -> list[Block]:
    """Blocks below a heading, or nothing where there are none."""
    return [Heading(level, title), *blocks] if blocks else []


class Pictures(dict[str, bytes]):
    """File names to SVG. A name is safe everywhere; its number keeps workloads of similar names apart."""

    def add(
        self, kind: str, workload: str, data: bytes, alt: str, *, number: int | None = None, large: bool = False
    ) -> Image:
        """Keep a picture and return it as a block; without a ``number`` it gets the next one of its kind."""
        if number is None:
            number = 1 + sum(name.startswith(f"{kind}-") for name in self)
        name = re.sub(r"[^a-z0-9]+", "-", workload.lower()).strip("-")[:40]
        file = "-".join(part for part in (kind, f"{number:02}", name) if part) + ".svg"
        self[file] = data
        return Image(file, alt, large)


def anchor(heading: str) -> str:
    """The fragment under which a forge reaches a heading: lower case, blanks to hyphens, other punctuation gone."""
    return re.sub(r"[^\w\- ]", "", plain(heading).lower()).replace(" ", "-")


def fragments(blocks: Sequence[Written]) -> dict[int, str]:
    """The fragment of each heading by its position among the blocks; equal ones are numbered as forges do."""
    seen: Counter[str] = Counter()
    names = {}
    for position, block in enumerate(blocks):
        if isinstance(block, Heading):
            name = anchor(block.text)
            names[position] = f"{name}-{seen[name]}" if seen[name] else name
            seen[name] += 1
    return names
