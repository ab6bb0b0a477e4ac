"""The templates of documents are markup; the values put into them are text, and escaped.

The markdown leaves some blocks to the page, so that it is read to its end, and names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from xbackend.report.said import blocks as b
from xbackend.wording import join, plain

_FOREIGN = re.compile(r"(?!https?:)[a-zA-Z][a-zA-Z0-9+.-]*:")


def template(name: str, escape: Callable[[object], str], **filters: Callable[[str], Markup]) -> Callable[..., str]:
    """A function that writes blocks, and other values by name, with the template of this name.

    A template tests the class of a block by its name, as in ``is table``. ``escape`` makes markup of text that no
    filter has made markup. Every template has the filters ``plain``, ``address`` (empty unless it is relative or of the
    web) and ``running`` (keeps a blank at either end), and the ``fragments`` of headings by position.
    """

    def running(part: str) -> Markup:
        leading, trailing = " " * part[:1].isspace(), " " * (len(part) > 1 and part[-1:].isspace())
        return Markup(f"{leading}{escape(part)}{trailing}")

    def write(blocks: Sequence[b.Content], **values: Any) -> str:
        return made.render(blocks=blocks, fragments=b.fragments(blocks), **values)

    environment = Environment(
        loader=PackageLoader("xbackend.report.written"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"plain": plain, "address": _address, "running": running, **filters}
    kinds = (*get_args(b.Content), b.Bold, b.Hyperlink)
    environment.tests |= {kind.__name__.lower(): lambda value, kind=kind: isinstance(value, kind) for kind in kinds}
    made = environment.get_template(name)
    return write


def _address(target: str) -> Markup:
    quoted = quote(target, safe="/#:?=%.~-_")
    return Markup("" if _FOREIGN.match(quoted) else quoted)


def flat(blocks: Sequence[b.AnyBlock], page: bool) -> list[b.Content]:
    """One block after the other: all for a ``page``; the markdown only names the blocks that it leaves out."""
    written: list[b.Content] = []
    for block in blocks:
        match block:
            case b.Folded(title, parts):
                inside = flat(parts, page)
                written += [b.Fold(title), *inside, b.Fold()] if inside else []
            case b.OnPage(_, parts):
                written += flat(parts, page) if page else []
            case b.Pointer(file):
                if (left := join(dict.fromkeys(_left(blocks)))) and not page:
                    whole = f"In {file}, one file to open in a browser (xbackend report writes it), there are besides: "
                    written.append(b.paragraph(whole, f"{left}."))
            case _:
                written.append(block)
    return written


def _left(blocks: Sequence[b.AnyBlock]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, b.OnPage) and block.blocks:
            yield block.what
        elif isinstance(block, b.Folded):
            yield from _left(block.blocks)
