"""A report as plain data: blocks of plain text, which `markdown` and `html` write.

No text in a block is markup. Bold text and links have types of their own; a writer escapes all the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from xbackend.wording import plain


class Bold(Struct, frozen=True):
    """Text to stress."""

    text: str


class Hyperlink(Struct, frozen=True):
    """Text that leads to an address."""

    text: str
    target: str


Inline = str | Bold | Hyperlink


class Heading(Struct, frozen=True):
    """A heading; level 1 is the title of the document."""

    level: int
    text: str


class Paragraph(Struct, frozen=True):
    """Running text; a ``notice`` is some that nobody should miss."""

    parts: tuple[Inline, ...]
    notice: bool = False


class Bullets(Struct, frozen=True):
    """A list of points."""

    items: tuple[tuple[Inline, ...], ...]


class Contents(Struct, frozen=True):
    """The table of contents, made by the writer from the headings of level 2 below it."""


class Table(Struct, frozen=True):
    """A table. Every row has as many cells as there are headers; columns in ``right`` hold numbers."""

    headers: tuple[str, ...]
    rows: tuple[tuple[Inline, ...], ...]
    right: frozenset[str] = frozenset()


class Image(Struct, frozen=True):
    """A picture beside the document, and what it shows in words. A ``large`` one scrolls, others grow with the page."""

    file: str
    alt: str
    large: bool = False


class Folded(Struct, frozen=True):
    """Blocks that are shown when somebody opens them, under words of ours."""

    title: str
    blocks: Sequence[AnyBlock]


class OnPage(Struct, frozen=True):
    """Blocks of the page, which the markdown leaves out; ``what``: their name, in words."""

    what: str
    blocks: Sequence[AnyBlock]


class Pointer(Struct, frozen=True):
    """The place where the markdown names the blocks that it leaves out, and the page's ``file`` beside it."""

    file: str


class Fold(Struct, frozen=True):
    """For a writer: where a folded part begins, with its title, or where it ends, without one."""

    title: str | None = None


AnyBlock = Heading | Paragraph | Bullets | Contents | Table | Image | Folded | OnPage | Pointer
Content = AnyBlock | Fold


def paragraph(*parts: Inline) -> Paragraph:
    """A paragraph of these parts, one after the other."""
    return Paragraph(parts)


def notice(what: str, words: str) -> Paragraph:
    """A paragraph that nobody should miss."""
    return Paragraph((Bold(what), f" {words}"), notice=True)


def points(items: Iterable[Sequence[Inline]]) -> list[AnyBlock]:
    """A list of points, or nothing where it would have none."""
    there = tuple(map(tuple, items))
    return [Bullets(there)] if there else []


def terms(meanings: Mapping[str, str]) -> Bullets:
    """A list of terms, each with what it means."""
    return Bullets(tuple((Bold(term), f": {words}") for term, words in meanings.items()))


def table(headers: Sequence[str], rows: Iterable[Sequence[Inline]], right: Iterable[str] = ()) -> Table:
    """A table from any sequences."""
    return Table(tuple(headers), tuple(map(tuple, rows)), frozenset(right))


def records(
    rows: Sequence[Mapping[str, Inline]], right: Iterable[str] = (), words: Sequence[str] | None = None
) -> list[AnyBlock]:
    """A table of rows by the names of their columns; nothing without a row. With ``words`` all others are numbers."""
    columns = [*rows[0]] if rows else []
    numbers = right if words is None else [column for column in columns if column not in words]
    return [table(columns, ([*row.values()] for row in rows), numbers)] if rows else []


def section(title: str, blocks: Sequence[AnyBlock], level: int = 2) -> list[AnyBlock]:
    """Blocks below a heading, or nothing where there are none."""
    return [Heading(level, title), *blocks] if blocks else []


class Pictures(dict[str, bytes]):
    """File names to SVG. A name is safe everywhere; its number keeps workloads of similar names apart."""

    def add(self, kind: str, workload: str, data: bytes, alt: str, large: bool = False) -> Image:
        """Keep a picture, with the next number of its kind, and return it as a block."""
        number = 1 + sum(name.startswith(f"{kind}-") for name in self)
        name = re.sub(r"[^a-z0-9]+", "-", workload.lower()).strip("-")[:40]
        file = "-".join(part for part in (kind, f"{number:02}", name) if part) + ".svg"
        self[file] = data
        return Image(file, alt, large)


def anchor(heading: str) -> str:
    """The fragment under which a forge reaches a heading: lower case, blanks to hyphens, other punctuation gone."""
    return re.sub(r"[^\w\- ]", "", plain(heading).lower()).replace(" ", "-")


def fragments(blocks: Sequence[Content]) -> dict[int, str]:
    """The fragment of each heading by its position among the blocks; equal ones are numbered as forges do."""
    seen: Counter[str] = Counter()
    names = {}
    for position, block in enumerate(blocks):
        if isinstance(block, Heading):
            name = anchor(block.text)
            names[position] = f"{name}-{seen[name]}" if seen[name] else name
            seen[name] += 1
    return names
