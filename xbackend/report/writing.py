"""The templates of documents: what stands in them is markup, all that is put into them is text, and escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, get_args
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from xbackend.report import blocks as b
from xbackend.report.headings import fragments
from xbackend.wording import plain

_FOREIGN = re.compile(r"(?!https?:)[a-zA-Z][a-zA-Z0-9+.-]*:")


def template(name: str, escape: Callable[[object], str], **filters: Callable[[str], Markup]) -> Callable[..., str]:
    """What writes blocks with the template of this name; it is given the blocks, and by name what else is in there.

    A template asks of a block whether it ``is table``, by the names of their classes. ``escape`` makes markup of all
    text that no filter has made markup. Every template has the filters ``plain``, ``address`` (empty for one that is
    neither relative nor of the web) and ``running`` (text that keeps a blank at either end), and ``below(position)``:
    the headings of level 2 below a block, by position and fragment.
    """

    def running(part: str) -> Markup:
        leading, trailing = " " * part[:1].isspace(), " " * (len(part) > 1 and part[-1:].isspace())
        return Markup(f"{leading}{escape(part)}{trailing}")

    def write(blocks: Sequence[b.Written], **values: Any) -> str:
        def below(position: int) -> list[tuple[int, str]]:
            wanted = (i for i, block in enumerate(blocks) if isinstance(block, b.Heading) and block.level == 2)
            return [(i, names[i]) for i in wanted if i > position]

        names = fragments(blocks)
        return made.render(blocks=blocks, fragments=names, below=below, **values)

    environment = Environment(
        loader=PackageLoader("xbackend.report"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"plain": plain, "address": _address, "running": running, **filters}
    kinds = (*get_args(b.Written), b.Bold, b.Hyperlink)
    environment.tests |= {kind.__name__.lower(): lambda value, kind=kind: isinstance(value, kind) for kind in kinds}
    made = environment.get_template(name)
    return write


def _address(target: str) -> Markup:
    quoted = quote(target, safe="/#:?=%.~-_")
    return Markup("" if _FOREIGN.match(quoted) else quoted)
