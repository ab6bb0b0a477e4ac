"""The table of an adapter: for each op what lowers it. An op without a row is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xbackend.errors import UnsupportedOperation

# Takes the framework's module, the node and its inputs, and what else the adapter says; returns the result, or a
# sequence of all where the op has several.
Row = Callable[..., Any]


class Rows(dict[str, Row]):
    """Rows by op, of one framework. A missing one raises `UnsupportedOperation`."""

    def __init__(self, framework: str, *tables: dict[str, Row]) -> None:
        super().__init__()
        self.framework = framework
        for table in tables:
            self.update(table)

    def __missing__(self, op: str) -> Row:
        raise UnsupportedOperation(f"{self.framework} has no row for the op {op}: see docs/adapters.md, 'To add an op'")
