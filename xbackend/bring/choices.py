"""A choice among several branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xbackend.api.control_flow import cond


def chosen(holds: Callable[[int], Any], branches: Sequence[Callable[[], Any]], number: int = 0) -> Any:
    """The result of the first branch whose number ``holds``, else of the last one: nested `cond`."""
    if number == len(branches) - 1:
        return branches[number]()
    return cond(holds(number), branches[number], lambda: chosen(holds, branches, number + 1))
