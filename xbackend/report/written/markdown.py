"""Blocks as GitHub-flavoured markdown (https://github.github.com/gfm).

Text from a framework, a machine or a file shows as it is and cannot become a table cell, a link, a heading or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup

from xbackend.report.said.blocks import AnyBlock
from xbackend.report.written.writing import flat, template
from xbackend.wording import plain

# `&` comes as an entity, so that the text's own entities are shown and not decoded; the angle brackets too, so that the
# document holds none that a lenient parser could take for a tag.
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# Characters with a meaning inside of a line: code, emphasis, links, images, footnotes, cells, strike-through,
# mathematics, the end of a heading.
_INLINE = re.compile(r"[\\`*\[\]|~$^{}#]|(?<![^\W_])_|_(?![^\W_])|!(?=\[)")
# The beginnings of a list, an underline or a rule at the start of a line.
_START = re.compile(r"^(?:[-+](?= |$)|[-=](?=[-= ]*$)|\d+[.)](?= |$))")


# Text of which a forge makes a link that nobody wrote: addresses, names with a full stop that end like a domain
# (`tf.distribute`, `model.py`), four numbers with full stops, `@name`, `#123`, `GH-123`, `owner/name#1`, commits.
_WORD = re.compile(r"[\w@#./:+=?&%~-]*[\w/]")
_LINKED = re.compile(
    r"://|\bwww\.|[\w-]\.[^\W\d_]{2,}|\b\d+\.\d+\.\d+\.\d+|@\w|#\d|\bGH-\d|"
    r"^(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}$"
)


def escape(text: object) -> str:
    """Text as markdown that shows exactly this text, as `plain` has it, anywhere in a document.

    Names that a forge would make a link of become code.
    """
    line, parts, end = plain(text), [], 0
    for word in _WORD.finditer(line):
        if _LINKED.search(word[0]):
            parts += [_escaped(line[end : word.start()]), f"`{word[0]}`"]
            end = word.end()
    return _begun("".join([*parts, _escaped(line[end:])]))


def _escaped(part: str) -> str:
    return _INLINE.sub(lambda m: "\\" + m[0], part).translate(_ENTITIES)


def _begun(line: str) -> str:
    return _START.sub(lambda m: m[0][:-1] + "\\" + m[0][-1], line)


def _uncoded(text: str) -> Markup:
    """The words of a picture, in which code would be lost."""
    return Markup(_begun(_escaped(plain(text))))


def _tagged(text: str) -> Markup:
    return Markup(plain(text).translate(_ENTITIES))


_DOCUMENT = template("document.md.j2", escape, uncoded=_uncoded, tagged=_tagged)


def write(blocks: Sequence[AnyBlock]) -> str:
    """A document of these blocks."""
    return _DOCUMENT(flat(blocks, page=False)).rstrip() + "\n"
