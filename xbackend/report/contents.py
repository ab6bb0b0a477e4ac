"""How headings are reached: the fragments that forges make of them, and the entries of a table of contents."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xbackend.report import blocks as b
from xbackend.report.text import plain


def anchor(heading: str) -> str:
    """The fragment under which a forge reaches a heading: lower case, blanks to hyphens, other punctuation gone."""
    return re.sub(r"[^\w\- ]", "", plain(heading).lower()).replace(" ", "-")


def fragments(blocks: Sequence[b.Block]) -> dict[int, str]:
    """The fragment of each heading by its position among the blocks; equal ones are numbered as forges do."""
    seen: dict[str, int] = {}
    found = {}
    for position, block in enumerate(blocks):
        if isinstance(block, b.Heading):
            name = anchor(block.text)
            before = seen.get(name, 0)
            seen[name] = before + 1
            found[position] = f"{name}-{before}" if before else name
    return found


def entries(blocks: Sequence[b.Block], position: int) -> list[tuple[str, str]]:
    """Text and fragment of the headings of level 2 below a position."""
    return [
        (block.text, name)
        for i, name in fragments(blocks).items()
        if isinstance(block := blocks[i], b.Heading) and block.level == 2 and i > position
    ]
