"""Wording for readers: counts, numbers, enumerations, and text from outside made safe to print."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")

# Control characters except line breaks and tabs, surrogates, marks that change the writing direction, noncharacters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)

REST = "close other programs, and measure again"  # what to do against noise: the end of a warning


def listed(text: str) -> list[str]:
    """The distinct words of ``a,b`` or ``a b``. Brackets do not split a word: ``a[b=c,d=e]`` is one."""
    return list(dict.fromkeys(filter(None, re.split(r"[\s,]+(?![^\[]*\])", text))))


def counted(count: int, singular: str, plural: str = "") -> str:
    """A count with its noun: ``1 process``, ``3 processes``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def number(value: float, digits: int = 3) -> str:
    """A number with ``digits`` significant digits; ``nan`` and ``inf`` as they are."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    rounded = f"{value:.{digits - 1}e}"
    exponent = int(rounded.partition("e")[2])
    if not -4 <= exponent < 7:
        return rounded
    return f"{float(rounded):.{max(digits - 1 - exponent, 0)}f}"


def percent(factor: float) -> str:
    """By how many percent a factor differs from 1."""
    return f"{number(100 * (factor - 1), 2)} %"


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """The items of (key, item) pairs by key, in order of appearance."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def few(words: Sequence[str], most: int = 4) -> str:
    """An enumeration of at most ``most`` words; if there are more, it ends as in ``3 more``."""
    return join(words if len(words) <= most else [*words[: most - 1], f"{len(words) - most + 1} more"])


def placed(items: Iterable[Item]) -> Iterator[tuple[Item, str]]:
    """Each item, and its place to end a line of progress with, ``(2 of 5)``; empty if it is the only one."""
    each = list(items)
    for number, item in enumerate(each, 1):
        yield item, f" ({number} of {len(each)})" if len(each) > 1 else ""


def unfinished(running: bool) -> str:
    """The predicate for an incomplete run."""
    return "is being measured" if running else "was cut off"


def meant(name: str, names: Iterable[str]) -> str:
    """The closest match of a mistyped name; empty where no name is similar."""
    from difflib import get_close_matches  # at the top it would double the import time of this module

    small = {other.lower(): other for other in names}
    return next((small[one] for one in get_close_matches(name.lower(), small, 1, 0.75)), "")


def suggested(name: str, names: Iterable[str]) -> str:
    """The end of a sentence, as in ``; did you mean 'numpy'?``; empty where no name is similar."""
    alike = meant(name, names)
    return f"; did you mean {alike!r}?" if alike else ""


def join(words: Iterable[str]) -> str:
    """Words as an English enumeration."""
    items = list(words)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def plain(text: object) -> str:
    """One line of text without characters that could steer a terminal, a browser or an XML parser.

    Line breaks and runs of blanks become one blank; control characters, surrogates, noncharacters and marks that change
    the writing direction become U+FFFD.
    """
    return visible(" ".join(str(text).split()))


def visible(text: object) -> str:
    """Text of several lines, safe for a terminal: as `plain`, but line breaks, tabs and blanks stay."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", str(text))


def marked(text: object) -> str:
    """Text of several lines, as `visible`, in HTML."""
    from html import escape  # at the top it would be a part of importing xbackend

    return f"<pre>{escape(visible(text))}</pre>"


def value(item: Any) -> str:
    """A value of unknown type, as data: text as it is, everything else as JSON."""
    return plain(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str))


def pairs(items: Mapping[str, Any]) -> str:
    """A mapping as ``key=value, key=value``."""
    return ", ".join(f"{plain(key)}={value(item)}" for key, item in items.items())
