"""How headings are reached: the fragments that forges make of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xbackend.report.blocks import Heading, Written
from xbackend.wording import plain


def anchor(heading: str) -> str:
    """The fragment under which a forge reaches a heading: lower case, blanks to hyphens, other punctuation gone."""
    return re.sub(r"[^\w\- ]", "", plain(heading).lower()).replace(" ", "-")


def fragments(blocks: Sequence[Written]) -> dict[int, str]:
    """The fragment of each heading by its position among the blocks; equal ones are numbered as forges do."""
    seen: dict[str, int] = {}
    names = {}
    for position, block in enumerate(blocks):
        if isinstance(block, Heading):
            name = anchor(block.text)
            before = seen.get(name, 0)
            seen[name] = before + 1
            names[position] = f"{name}-{before}" if before else name
    return names
