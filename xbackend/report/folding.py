"""What of a document is folded, and what the markdown leaves to the page, so that the former is read to its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xbackend.report.blocks import Block, Closed, Folded, OnPage, Opened, Paragraph, Pointer, Written
from xbackend.wording import join


def for_page(blocks: Sequence[Block]) -> list[Written]:
    """One block after the other as the page has them: everything."""
    written: list[Written] = []
    for block in blocks:
        match block:
            case Folded(title, parts):
                inside = for_page(parts)
                written += [Opened(title), *inside, Closed()] if inside else []
            case OnPage(_, parts):
                written += for_page(parts)
            case Pointer():
                pass
            case _:
                written.append(block)
    return written


def for_markdown(blocks: Sequence[Block]) -> list[Written]:
    """One block after the other as the markdown has them: without what is left to the page, which is said."""
    left = list(dict.fromkeys(_left(blocks)))
    written: list[Written] = []
    for block in blocks:
        match block:
            case Folded(title, parts):
                inside = for_markdown(parts)
                written += [Opened(title), *inside, Closed()] if inside else []
            case Pointer(file) if left:
                whole = f"In {file}, one file to open in a browser (xbackend report writes it), there are besides: "
                written.append(Paragraph((whole, f"{join(left)}.")))
            case OnPage() | Pointer():
                pass
            case _:
                written.append(block)
    return written


def _left(blocks: Sequence[Block]) -> Iterator[str]:
    """What is left to the page, in words."""
    for block in blocks:
        if isinstance(block, OnPage) and block.blocks:
            yield block.what
        elif isinstance(block, Folded):
            yield from _left(block.blocks)
