"""HTML for a part of a page, as in a notebook: text, facts, and pictures that do not affect the rest of the page.

A program or a placement shows itself in a notebook by `shown`; the report's pages take `escape` and `inline`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape as escaped
from xml.etree import ElementTree
from zlib import crc32

from xbackend.drawing import dark
from xbackend.drawing.graph import GREY
from xbackend.wording import plain

SMALL = 40  # nodes: a larger program is not drawn where nobody asked for it
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_TAGS = frozenset(
    ("svg", "g", "defs", "path", "rect", "circle", "line", "polyline", "polygon", "text", "tspan", "title", "use")
) | {"clipPath", "marker"}
_COLOURED = ("fill", "stroke", "style")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")


def escape(text: object) -> str:
    """Text, after `plain`, escaped for an element or an attribute of HTML."""
    return escaped(plain(text))


def shown(title: str, facts: Mapping[str, object], picture: str = "", alt: str = "") -> str:
    """A title, a row for each fact that is not empty, and a picture (SVG)."""
    drawn = inline(picture.encode(), f"p{crc32(picture.encode()):x}.", alt) if picture else ""
    rows = table((), [[name, fact] for name, fact in facts.items() if str(fact)])
    return f"<div><strong>{escape(title)}</strong>{rows}{drawn}</div>"


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of text, left-aligned; empty without a row."""
    looks = ' style="text-align: left"'
    head = "".join(f"<th{looks}>{escape(header)}</th>" for header in headers)
    body = "".join("<tr>" + "".join(f"<td{looks}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{head and f'<tr>{head}</tr>'}{body}</table>" if body else ""


def inline(svg: bytes, prefix: str, words: str) -> str:
    """An SVG picture as an element of a page: every id begins with ``prefix``, ``words`` are its label.

    Its grey becomes the colour of the text around it. On a dark page its light colours become dark ones. Elements that
    are no drawing are left out.
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
