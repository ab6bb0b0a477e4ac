"""One figure that the project sets itself, with the limit that it is to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure as measured: a ratio, a duration or a rate.

    ``group`` names the section (``framework tax``, ``blas``, ``tracing``, ...), ``subject`` the backend or what else
    was measured, ``limit`` the figure to reach, ``relation`` ``at most`` or ``at least``; ``detail`` holds the numbers
    behind it. Without a value, ``reason`` says why.
    """

    group: str
    name: str
    subject: str
    value: float | None
    unit: str
    limit: float | None = None
    relation: Literal["at most", "at least"] = "at most"
    reason: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """Whether the figure is reached; `None` if it was not measured or has no limit."""
        if self.value is None or self.limit is None:
            return None
        return self.value <= self.limit if self.relation == "at most" else self.value >= self.limit


Value = Callable[[dict[str, Any]], tuple[float, dict[str, Any]]]


def made(found: dict[str, Any] | str, value: Value, **common: Any) -> Figure:
    """A figure with the value and the detail that ``value`` computes from a process's answer, or with the reason."""
    if isinstance(found, str):
        return Figure(value=None, reason=found, **common)
    number, detail = value(found)
    detail["foreign_cores"] = found.get("foreign_cores", 0.0)
    return Figure(value=number, detail=detail, **common)
