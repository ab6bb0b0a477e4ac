"""Words that the sessions, the gate and the reports share."""

from __future__ import annotations

import re


def listed(text: str) -> list[str]:
    """The words of ``a,b`` or ``a b``, each once; what stands in brackets, as in ``a[b=c,d=e]``, is of its word."""
    return list(dict.fromkeys(filter(None, re.split(r"[\s,]+(?![^\[]*\])", text))))


def counted(count: int, singular: str, plural: str = "") -> str:
    """A count with its noun: ``1 process``, ``3 processes``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def unfinished(running: bool) -> str:
    """What became of a run that is not complete."""
    return "is being measured" if running else "was cut off"
