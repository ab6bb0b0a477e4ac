"""Ops of a graph that no program has, collected for one error."""

from __future__ import annotations

from dataclasses import dataclass, field

from xbackend.errors import GraphError


@dataclass
class Missing:
    """Ops without a row, each with its count, the user's first line with it, and what to write instead."""

    framework: str
    found: dict[str, tuple[int, str, str]] = field(default_factory=dict)

    def add(self, op: str, line: str = "", instead: str = "") -> None:
        count, first, said = self.found.get(op, (0, line, instead))
        self.found[op] = (count + 1, first, said)

    def check(self, name: str) -> None:
        """Raises `GraphError` if an op was added."""
        if self.found:
            raise GraphError(f"{name} has ops of {self.framework} that no program has:{self.lines()}")

    def lines(self) -> str:
        """A line for each op."""
        return "".join(
            f"\n  {op}, {'once' if count == 1 else f'{count} times'}"
            f"{f', first at {line}' if line else ''}{f': {instead}' if instead else ''}"
            for op, (count, line, instead) in sorted(self.found.items())
        )
