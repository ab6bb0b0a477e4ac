"""Blocks as GitHub-flavoured markdown (https://github.github.com/gfm).

Text from a framework, a machine or a file shows as it is and cannot become a table cell, a link, a heading or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup

from xbackend.report.blocks import Block
from xbackend.report.writing import template
from xbackend.wording import plain, visible

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

    Line breaks become blanks and control characters U+FFFD, see `plain`.
    """
    line = _INLINE.sub(lambda m: "\\" + m[0], plain(text))
    line = "".join(_ENTITIES.get(c, c) for c in line)
    return _START.sub(lambda m: m[0][:-1] + "\\" + m[0][-1], line)


def _fenced(mermaid: str) -> Markup:
    """Lines that can neither end their fence nor hold a `<`, which Mermaid would read as HTML."""
    return Markup(visible(mermaid).rstrip().replace("<", "#60;").replace("`", "#96;"))


_DOCUMENT = template("document.md.j2", escape, fenced=_fenced)


def write(blocks: Sequence[Block]) -> str:
    """A document of these blocks."""
    return _DOCUMENT(blocks).rstrip() + "\n"
