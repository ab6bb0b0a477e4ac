"""Blocks as one HTML page that needs nothing else: pictures and style inside, no script, nothing fetched.

A policy in the page itself forbids scripts and addresses, too. Each picture in it has ids and a style of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from markupsafe import Markup

from xbackend.drawing.markup import escape, inline
from xbackend.report.said.blocks import AnyBlock, Image
from xbackend.report.written.writing import flat, template

_PAGE, _PART = (template(f"{name}.html.j2", escape) for name in ("page", "blocks"))


def write(blocks: Sequence[AnyBlock], pictures: Mapping[str, bytes]) -> str:
    """A page of these blocks, with the pictures (SVG by file name) in it."""
    numbers = count(1)

    def inlined(image: Image) -> Markup:
        # No fragment of a heading has a full stop.
        return Markup(inline(pictures[image.file], f"picture.{next(numbers)}.", image.alt))

    return _PAGE(flat(blocks, page=True), pictures=pictures, inlined=inlined)


def fragment(blocks: Sequence[AnyBlock]) -> str:
    """These blocks as a part of another page, such as a notebook: without headings, pictures or a style of its own."""
    return f"<div>{_PART(flat(blocks, page=False), pictures={}, inlined=None).strip()}</div>"
