"""The table of an adapter: a lowering for each op. An op without a row is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xbackend.errors import UnsupportedOperation

# From the framework's module, the node, its inputs and the adapter's own arguments to the result, or to all results.
LoweringRow = Callable[..., Any]


class Rows(dict[str, LoweringRow]):
    """The rows of one framework by op. A missing one raises `UnsupportedOperation`."""

    def __init__(self, framework: str, *tables: dict[str, LoweringRow]) -> None:
        super().__init__()
        self.framework = framework
        for table in tables:
            self.update(table)

    def __missing__(self, op: str) -> LoweringRow:
        raise UnsupportedOperation(f"{self.framework} has no row for the op {op}: see docs/adapters.md, 'To add an op'")
