"""The figures as a document: what is to be reached and whether it was, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from overhead.figure import Figure
from xbackend import wording
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Heading, paragraph, table
from xbackend.report.written import markdown
from xbackend.results.schema import Machine
from xbackend.wording import plain

_SHORT = 200
_HEADERS = ("figure", "of", "value", "interval", "to reach", "reached", "reason", "behind it")


def write(found: Iterable[Figure], machine: Machine, created: str) -> str:
    """Markdown: a table for each group of figures, in the order of the first of each."""
    groups: dict[str, list[Figure]] = {}
    for figure in found:
        groups.setdefault(figure.group, []).append(figure)
    where = f"Measured {created} on {machine.processor}, {machine.cores} cores, {machine.system}."
    blocks: list[AnyBlock] = [Heading(1, "Figures to reach"), paragraph(plain(where))]
    for name, group in groups.items():
        blocks.append(Heading(2, plain(name)))
        blocks.append(table(_HEADERS, [_row(f) for f in group], right=("value", "interval", "to reach")))
    return markdown.write(blocks)


def _row(figure: Figure) -> list[str]:
    reached = {True: "yes", False: "no", None: "not measured" if figure.value is None else "no limit set"}
    interval = figure.detail.get("interval")
    between = [text.NOTHING] if interval is None else [_quantity(x, figure.unit) for x in interval]
    limit = text.NOTHING if figure.limit is None else f"{figure.relation} {figure.limit:g} {figure.unit}"
    behind = {name: _brief(value) for name, value in figure.detail.items() if name != "interval"}
    return [
        plain(figure.name),
        plain(figure.subject),
        _quantity(figure.value, figure.unit),
        " to ".join(between),
        plain(limit),
        reached[figure.reached],
        plain(figure.reason) or text.NOTHING,
        text.shorten(wording.pairs(behind), _SHORT) or text.NOTHING,
    ]


def _quantity(value: float | None, unit: str) -> str:
    """A value with its unit; seconds in the unit that is read best."""
    if unit == "s":
        return text.time(value)
    return text.number(value) + (f" {plain(unit)}" if unit and value is not None else "")


def _brief(value: Any) -> Any:
    if isinstance(value, float):
        return text.number(value, 4)
    return f"{len(value)} values" if isinstance(value, list | tuple) and len(value) > 4 else value
