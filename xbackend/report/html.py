"""Blocks as one HTML page that needs nothing else: pictures and style inside, no script, nothing fetched.

A policy in the page itself forbids scripts and addresses besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as escaped
from itertools import count

from markupsafe import Markup

from xbackend.report import blocks as b
from xbackend.report.inline_svg import inline
from xbackend.report.templates import render
from xbackend.wording import plain, visible


def escape(text: object) -> str:
    """Text as HTML that shows exactly this text, in an element or an attribute, but for what `plain` replaces."""
    return escaped(plain(text))


def write(blocks: Sequence[b.Block], pictures: Mapping[str, bytes]) -> str:
    """A page of these blocks, with the pictures (SVG by file name) in it."""
    numbers = count(1)

    def inlined(image: b.Image) -> Markup:
        # No fragment of a heading has a full stop.
        return Markup(inline(pictures[image.file], f"picture.{next(numbers)}.", image.alt))

    filters = {"lines": lambda source: Markup(escaped(visible(source)))}
    return render("page.html.j2", escape, blocks, filters, pictures=pictures, inlined=inlined)
