"""Blocks as GitHub-flavoured markdown (https://github.github.com/gfm).

Everything that is not a block's own markup is escaped, so that text from a framework, a machine or a damaged file shows
as it is and cannot become a table cell, a link, a heading or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote

from xbackend.report import blocks as b
from xbackend.report.contents import entries
from xbackend.report.text import plain

# `&` comes as an entity, so that the text's own entities are shown and not decoded; the angle brackets too, so that the
# document holds none that a lenient parser could take for a tag.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# What has a meaning inside of a line: code, emphasis, links, images, footnotes, cells, strike-through, mathematics, the
# end of a heading.
_INLINE = re.compile(r"[\\`*\[\]|~$^{}#]|(?<![^\W_])_|_(?![^\W_])|!(?=\[)")
# What begins a list, an underline or a rule at the start of a line.
_START = re.compile(r"^(?:[-+](?= |$)|[-=](?=[-= ]*$)|\d+[.)](?= |$))")


def escape(text: object) -> str:
    """Text as markdown that shows exactly this text, on one line, anywhere in a document.

    Line breaks become blanks and control characters U+FFFD, see `text.plain`.
    """
    line = _INLINE.sub(lambda m: "\\" + m[0], plain(text))
    line = "".join(_ENTITIES.get(c, c) for c in line)
    return _START.sub(lambda m: m[0][:-1] + "\\" + m[0][-1], line)


def write(blocks: Sequence[b.Block]) -> str:
    """A document of these blocks."""
    parts = []
    for i, block in enumerate(blocks):
        if isinstance(block, b.Contents):
            parts.append(_contents(blocks, i))
        else:
            parts.append(_WRITERS[type(block)](block))
    return "\n\n".join(part for part in parts if part) + "\n"


def _inline(part: b.Inline) -> str:
    if isinstance(part, b.Bold):
        # Blanks or nothing at all next to the asterisks would show them.
        return f"**{escape(part.text)}**" if plain(part.text) else ""
    if isinstance(part, b.Hyperlink):
        return f"[{escape(part.text)}]({quote(part.target, safe='/#:?=%.~-_')})"
    leading, trailing = " " * part[:1].isspace(), " " * (len(part) > 1 and part[-1:].isspace())
    return f"{leading}{escape(part)}{trailing}"


def _line(parts: Iterable[b.Inline]) -> str:
    return "".join(map(_inline, parts)).strip()


def _heading(block: b.Heading) -> str:
    return f"{'#' * block.level} {escape(block.text)}"


def _paragraph(block: b.Paragraph) -> str:
    return _line(block.parts)


def _notice(block: b.Notice) -> str:
    return f"> {_line(block.parts)}"


def _bullets(block: b.Bullets) -> str:
    return "\n".join(f"- {_line(item)}" for item in block.items)


def _table(block: b.Table) -> str:
    lines = [
        [escape(header) for header in block.headers],
        ["---:" if header in block.right else "---" for header in block.headers],
        *([_inline(cell) for cell, _ in zip(row, block.headers, strict=True)] for row in block.rows),
    ]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _image(block: b.Image) -> str:
    return f"![{escape(block.alt)}]({quote(block.file)})"


def _drawing(block: b.Drawing) -> str:
    # Each line by itself, so that the text can't end its own fence, and no `<`, which Mermaid would read as HTML.
    lines = [line[: len(line) - len(line.lstrip(" "))] + plain(line) for line in block.mermaid.split("\n")]
    text = "\n".join(lines).rstrip().replace("<", "#60;").replace("`", "#96;")
    same = "" if block.image is None else f"\n\n{_inline(b.Hyperlink('The same as SVG', block.image.file))}"
    return f"```mermaid\n{text}\n```{same}"


def _contents(blocks: Sequence[b.Block], position: int) -> str:
    return "\n".join(f"- {_inline(b.Hyperlink(text, '#' + name))}" for text, name in entries(blocks, position))


_WRITERS: dict[type, Callable[[Any], str]] = {
    b.Heading: _heading,
    b.Paragraph: _paragraph,
    b.Notice: _notice,
    b.Bullets: _bullets,
    b.Table: _table,
    b.Image: _image,
    b.Drawing: _drawing,
}
