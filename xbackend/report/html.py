"""Blocks as one HTML page that needs nothing else: pictures and style inside, no script, nothing fetched.

Everything that is not a block's own markup is escaped, as in `markdown`; besides, a policy in the page itself forbids
scripts and addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape as escaped
from urllib.parse import quote

from xbackend.report import blocks as b
from xbackend.report.contents import entries, fragments
from xbackend.report.inline_svg import inline
from xbackend.report.stylesheet import STYLESHEET
from xbackend.report.text import plain

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
_SCHEME = re.compile(r"(?!https?:)[a-zA-Z][a-zA-Z0-9+.-]*:")
# Characters: a cell of at most so many is not broken, one of more than so many gets much room.
_SHORT, _LONG = 24, 60


def escape(text: object) -> str:
    """Text as HTML that shows exactly this text, in an element or an attribute, but for what `text.plain` replaces."""
    return escaped(plain(text))


def write(blocks: Sequence[b.Block], pictures: Mapping[str, bytes]) -> str:
    """A page of these blocks, with the pictures (SVG by file name) in it."""
    page = _Page(blocks, pictures)
    title = next((block.text for block in blocks if isinstance(block, b.Heading)), "")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLESHEET}</style>",
            "</head>",
            "<body>",
            "<main>",
            *page.parts(),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


class _Page:
    """The blocks one after the other; keeps what is numbered over the page."""

    def __init__(self, blocks: Sequence[b.Block], pictures: Mapping[str, bytes]) -> None:
        self.blocks, self.pictures = blocks, pictures
        self.fragments = fragments(blocks)
        self.drawn = 0

    def parts(self) -> list[str]:
        return [self._block(position, block) for position, block in enumerate(self.blocks)]

    def _block(self, position: int, block: b.Block) -> str:
        match block:
            case b.Heading():
                return f'<h{block.level} id="{escape(self.fragments[position])}">{escape(block.text)}</h{block.level}>'
            case b.Paragraph():
                return f"<p>{_line(block.parts)}</p>"
            case b.Notice():
                return f'<p class="notice">{_line(block.parts)}</p>'
            case b.Bullets():
                return _list(_line(item) for item in block.items)
            case b.Contents():
                found = entries(self.blocks, position)
                items = _list(_inline(b.Hyperlink(text, "#" + name)) for text, name in found)
                return f'<nav aria-label="Contents">{items}</nav>'
            case b.Table():
                return _table(block)
            case b.Image():
                return self._image(block)
            case b.Drawing():
                if block.image is not None:
                    return self._image(block.image)
                lines = (line[: len(line) - len(line.lstrip(" "))] + plain(line) for line in block.mermaid.split("\n"))
                return f'<pre tabindex="0">{escaped(chr(10).join(lines))}</pre>'

    def _image(self, image: b.Image) -> str:
        if image.file not in self.pictures:
            return f"<p>{escape(image.alt)}</p>"
        self.drawn += 1
        # No fragment of a heading has a full stop.
        svg = inline(self.pictures[image.file], f"picture.{self.drawn}.", image.alt)
        return f'<figure tabindex="0">{svg}</figure>'


def _inline(part: b.Inline) -> str:
    if isinstance(part, b.Bold):
        return f"<strong>{escape(part.text)}</strong>"
    if isinstance(part, b.Hyperlink):
        address = quote(part.target, safe="/#:?=%.~-_")
        if _SCHEME.match(address):
            return escape(part.text)
        return f'<a href="{escape(address)}">{escape(part.text)}</a>'
    leading, trailing = " " * part[:1].isspace(), " " * (len(part) > 1 and part[-1:].isspace())
    return f"{leading}{escape(part)}{trailing}"


def _line(parts: Iterable[b.Inline]) -> str:
    return "".join(map(_inline, parts)).strip()


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"\n<li>{item}</li>" for item in items) + "\n</ul>"


def _table(block: b.Table) -> str:
    heads = "".join(
        f'<th scope="col"{" class=number" * (header in block.right)}>{escape(header)}</th>' for header in block.headers
    )
    rows = [
        "<tr>" + "".join(_cell(cell, h in block.right) for cell, h in zip(row, block.headers, strict=True)) + "</tr>"
        for row in block.rows
    ]
    words = escape(f"Table: {', '.join(block.headers[:3])}")
    lines = [f'<div class="scroll" role="region" tabindex="0" aria-label="{words}"><table>']
    return "\n".join([*lines, f"<thead><tr>{heads}</tr></thead>", "<tbody>", *rows, "</tbody>", "</table></div>"])


def _cell(cell: b.Inline, number: bool) -> str:
    text = cell if isinstance(cell, str) else cell.text
    kind = "number" if number else "short" if len(text) <= _SHORT else "middle" if len(text) <= _LONG else "long"
    return f"<td class={kind}>{_line([cell])}</td>"
