"""Words that rooms share: counts, enumerations, and text from outside, as a reader may see it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def listed(text: str) -> list[str]:
    """The words of ``a,b`` or ``a b``, each once; what stands in brackets, as in ``a[b=c,d=e]``, is of its word."""
    return list(dict.fromkeys(filter(None, re.split(r"[\s,]+(?![^\[]*\])", text))))


def counted(count: int, singular: str, plural: str = "") -> str:
    """A count with its noun: ``1 process``, ``3 processes``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def unfinished(running: bool) -> str:
    """What became of a run that is not complete."""
    return "is being measured" if running else "was cut off"


def join(words: Iterable[str]) -> str:
    """Words as an English enumeration."""
    items = list(words)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def plain(text: object) -> str:
    """One line of text without what could steer a terminal, a browser or an XML parser.

    Line breaks and runs of blanks become one blank; control characters, surrogates, noncharacters and marks that turn
    the direction of writing become U+FFFD.
    """
    return visible(" ".join(str(text).split()))


def visible(text: object) -> str:
    """Text of several lines without what could steer a terminal: as `plain`, but line breaks, tabs and blanks stay."""
    return "".join(c if c in "\n\t" or not _unsafe(c) else _REPLACEMENT for c in str(text))


def _unsafe(character: str) -> bool:
    if unicodedata.category(character) in ("Cc", "Cs") or character in _BIDIRECTIONAL:
        return True
    code = ord(character)
    return (code & 0xFFFE) == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def value(item: Any) -> str:
    """A value of unknown type, as data: text as it is, everything else as JSON."""
    return plain(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str))


def pairs(items: Mapping[str, Any]) -> str:
    """A mapping as ``key=value, key=value``."""
    return ", ".join(f"{plain(key)}={value(item)}" for key, item in items.items())
