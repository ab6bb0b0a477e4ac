"""Blocks as one HTML page that needs nothing else: pictures and style inside, no script, nothing fetched.

A policy in the page itself forbids scripts and addresses besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as escaped
from itertools import count

from markupsafe import Markup

from xbackend.report.blocks import Block, Image
from xbackend.report.folding import for_page
from xbackend.report.inline_svg import inline
from xbackend.report.writing import template
from xbackend.wording import plain


def escape(text: object) -> str:
    """Text as HTML that shows exactly this text, in an element or an attribute, but for what `plain` replaces."""
    return escaped(plain(text))


_PAGE = template("page.html.j2", escape)


def write(blocks: Sequence[Block], pictures: Mapping[str, bytes]) -> str:
    """A page of these blocks, with the pictures (SVG by file name) in it."""
    numbers = count(1)

    def inlined(image: Image) -> Markup:
        # No fragment of a heading has a full stop.
        return Markup(inline(pictures[image.file], f"picture.{next(numbers)}.", image.alt))

    return _PAGE(for_page(blocks), pictures=pictures, inlined=inlined)
