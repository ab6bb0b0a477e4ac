"""Blocks as one HTML page that needs nothing else: pictures and style inside, no script, nothing fetched.

A policy in the page itself forbids scripts and addresses, too. Each picture in it has ids and a style of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape as escaped
from itertools import count
from xml.etree import ElementTree

from markupsafe import Markup

from xbackend.drawing import dark
from xbackend.drawing.graph import GREY
from xbackend.report.said.blocks import Block, Image
from xbackend.report.written.writing import flat, template
from xbackend.wording import plain

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_TAGS = frozenset(
    ("svg", "g", "defs", "path", "rect", "circle", "line", "polyline", "polygon", "text", "tspan", "title", "use")
) | {"clipPath", "marker"}
_COLOURED = ("fill", "stroke", "style")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")


def escape(text: object) -> str:
    """Text as HTML that shows exactly this text, in an element or an attribute, but for what `plain` replaces."""
    return escaped(plain(text))


_PAGE, _PART = (template(f"{name}.html.j2", escape) for name in ("page", "blocks"))


def write(blocks: Sequence[Block], pictures: Mapping[str, bytes]) -> str:
    """A page of these blocks, with the pictures (SVG by file name) in it."""
    numbers = count(1)

    def inlined(image: Image) -> Markup:
        # No fragment of a heading has a full stop.
        return Markup(inline(pictures[image.file], f"picture.{next(numbers)}.", image.alt))

    return _PAGE(flat(blocks, page=True), pictures=pictures, inlined=inlined)


def fragment(blocks: Sequence[Block]) -> str:
    """These blocks as a part of another page, such as a notebook: without headings, pictures or a style of its own."""
    return f"<div>{_PART(flat(blocks, page=False), pictures={}, inlined=None).strip()}</div>"


def inline(svg: bytes, prefix: str, words: str) -> str:
    """The element ``svg`` for a page that holds others: every id begins with ``prefix``, ``words`` say what it shows.

    Its grey becomes the colour of the text around it, and its light colours dark ones on a dark page. Elements that are
    no drawing are left out.
    """
    tree = ElementTree.fromstring(svg)
    _clean(tree, prefix)
    # matplotlib says this of all elements in a style sheet, which would hold for the whole page.
    tree.set("style", "stroke-linejoin: round; stroke-linecap: butt")
    tree.set("role", "img")
    tree.set("aria-label", plain(words))
    for title in tree.findall("title"):
        tree.remove(title)  # the label says it already, and a title covers the picture when the mouse rests on it
    tree.tail = None
    return ElementTree.tostring(tree, encoding="unicode")


def _clean(element: ElementTree.Element, prefix: str) -> None:
    element.tag = element.tag.removeprefix(_SVG)
    kept = {name: value for name, value in element.attrib.items() if not name.lower().startswith("on")}
    element.attrib = {name.removeprefix(_XLINK): _renamed(name, value, prefix) for name, value in kept.items()}
    for child in list(element):
        if isinstance(child.tag, str) and child.tag.removeprefix(_SVG) in _TAGS:
            _clean(child, prefix)
        else:
            element.remove(child)


def _renamed(name: str, value: str, prefix: str) -> str:
    """The value of an attribute; an id or a reference to one gets the prefix."""
    if name == "id":
        return prefix + value
    if name.endswith("href"):
        return f"#{prefix}{value.removeprefix('#')}"
    value = _REFERENCE.sub(lambda reference: f"url(#{prefix}{reference[1]})", value)
    return dark.either(value.replace(GREY, "currentColor")) if name in _COLOURED else value
