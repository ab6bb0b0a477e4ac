"""Words that the sessions, the gate and the reports share."""

from __future__ import annotations


def counted(count: int, singular: str, plural: str = "") -> str:
    """A count with its noun: ``1 process``, ``3 processes``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def unfinished(running: bool) -> str:
    """What became of a run that is not complete."""
    return "is being measured" if running else "was cut off"
