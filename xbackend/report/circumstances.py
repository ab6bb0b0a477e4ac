"""Under what circumstances it was measured: software, machine, settings, order, figures and what others published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from xbackend.measure.results import Figure, Process, Results
from xbackend.report import text
from xbackend.report.blocks import Block, Heading, Inline, Link, Table, paragraph, table
from xbackend.report.candidates import Group
from xbackend.report.published import PUBLISHED

_SHORT = 200


def environment(results: Results) -> Table | None:
    """Versions, threads and BLAS of each backend, as it read them back; a row for each different answer."""
    answers: dict[str, tuple[str, list[int], Mapping[str, Any]]] = {}
    for m in results.measurements:
        if m.description:
            found = answers.setdefault(f"{m.backend}\0{text.value(m.description)}", (m.backend, [], m.description))
            found[1].append(m.devices)
    if not answers:
        return None
    known = ("versions", "threads", "blas")
    rows = [
        [
            text.plain(backend),
            ", ".join(map(str, sorted(set(devices)))),
            *(_listed(description.get(key)) for key in known),
            text.pairs({k: v for k, v in description.items() if k not in known}) or text.NOTHING,
        ]
        for backend, devices, description in answers.values()
    ]
    return table(("backend", "devices", *known, "else"), rows)


def _listed(item: Any) -> str:
    """Data of a description as a line: mappings as ``key value``, lists of mappings by their values."""
    if item is None or item in ({}, []):
        return text.NOTHING
    if isinstance(item, Mapping):
        return ", ".join(f"{text.plain(key)} {_listed(value)}" for key, value in item.items())
    if isinstance(item, list | tuple):
        return "; ".join(_listed(value) for value in item)
    return text.value(item)


def machine(results: Results) -> Table:
    """The machine, a row for each fact."""
    found = results.machine
    facts = {
        "processor": found.processor,
        "cores": found.cores,
        "memory": text.size(found.memory_bytes),
        "accelerators": ", ".join(found.accelerators) or "none",
        "system": found.system,
        "Python": found.python,
        "fingerprint": found.fingerprint,
    }
    return _facts("machine", facts)


def settings(results: Results) -> Table | None:
    """The settings of the run."""
    return _facts("setting", results.settings) if results.settings else None


def _facts(name: str, facts: Mapping[str, Any]) -> Table:
    return table((name, "value"), [[text.plain(key), text.value(value)] for key, value in facts.items()])


def order(results: Results) -> list[Block]:
    """In which order the candidates were measured, and when."""
    finished: dict[int, list[Process]] = {}
    for process in (p for m in results.measurements for p in m.processes):
        finished.setdefault(process.order, []).append(process)
    if not results.order and not finished:
        return [paragraph("Nothing was started.")]
    starts = [p.started for found in finished.values() for p in found if math.isfinite(p.started)]
    first = min(starts, default=0.0)
    labels = dict(enumerate(results.order))
    rows = []
    for position in sorted({*labels, *finished}):
        label = text.plain(labels.get(position, "not in the recorded order"))
        found = finished.get(position, [])
        rows += [[str(position), label, *_run(p, first)] for p in found]
        if not found:
            rows.append([str(position), label, *[text.NOTHING] * 3, "did not finish"])
    headers = ("position", "candidate", "process began", "rounds", "iterations", "median")
    return [
        paragraph(
            f"The first process that finished began at {_moment(first)}; the others' beginnings count from there."
        ),
        table(headers, rows, right=("position", *headers[2:])),
    ]


def _run(process: Process, first: float) -> list[str]:
    return [
        f"{process.started - first:+.1f} s",
        str(len(process.rounds)),
        str(process.iterations),
        text.time(process.median if process.rounds else None),
    ]


def _moment(stamp: float) -> str:
    """Seconds since 1970 as a date in UTC, or the number itself where the calendar has no such date."""
    try:
        return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{stamp:g} s"


def figures(results: Results) -> list[Block]:
    """The figures that the project sets itself: a table for each group of them."""
    groups: dict[str, list[Figure]] = {}
    for figure in results.figures:
        groups.setdefault(figure.group, []).append(figure)
    headers = ("figure", "of", "value", "interval", "to reach", "reached", "reason", "behind it")
    blocks: list[Block] = []
    for name, found in groups.items():
        blocks.append(Heading(3, text.plain(name)))
        blocks.append(table(headers, [_figure(f) for f in found], right=("value", "interval", "to reach")))
    return blocks


def _figure(figure: Figure) -> list[str]:
    reached = {True: "yes", False: "no", None: "not measured" if figure.value is None else "no limit set"}
    interval = figure.detail.get("interval")
    shown = text.NOTHING
    if isinstance(interval, list | tuple) and len(interval) == 2 and all(isinstance(x, int | float) for x in interval):
        shown = f"{_quantity(interval[0], figure.unit)} to {_quantity(interval[1], figure.unit)}"
    limit = text.NOTHING
    if figure.limit is not None:
        limit = f"{figure.relation} {figure.limit:g} {figure.unit}"
    behind = {k: _brief(v) for k, v in figure.detail.items() if k != "interval" or shown == text.NOTHING}
    return [
        text.plain(figure.name),
        text.plain(figure.subject),
        _quantity(figure.value, figure.unit),
        shown,
        text.plain(limit),
        reached[figure.reached],
        text.plain(figure.reason) or text.NOTHING,
        text.shorten(text.pairs(behind), _SHORT) or text.NOTHING,
    ]


def _quantity(value: float | None, unit: str) -> str:
    """A value with its unit; seconds in the unit that is read best."""
    if unit == "s":
        return text.time(None if value is None else text.as_float(value))
    return text.number(value) + (f" {text.plain(unit)}" if unit and value is not None else "")


def _brief(value: Any) -> Any:
    if isinstance(value, float):
        return text.number(value, 4)
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"{len(value)} values"
    return value


def published(groups: Sequence[Group]) -> list[Block]:
    """Today's times on one device and on several beside those that others published; empty without both."""
    blocks: list[Block] = []
    headers = ("source", "hardware", "what", "devices", "one device", "all devices", "speed-up")
    for workload, entries in PUBLISHED.items():
        today = [row for g in groups if g.workload == workload for row in _today(g)]
        if not today:
            continue
        rows: list[list[Inline]] = [
            [
                Link(p.source, p.address),
                p.hardware,
                p.about,
                str(p.devices),
                text.time(p.one),
                text.time(p.many),
                text.number(p.speedup),
            ]
            for p in entries
        ]
        blocks.append(table(headers, [*rows, *today], right=headers[3:]))
    return blocks


def _today(group: Group) -> list[list[Inline]]:
    """A row for each backend that was measured on one device and on more."""
    single = {c.measurement.backend: c for c in group.candidates if c.usable and c.measurement.devices == 1}
    rows: list[list[Inline]] = []
    for candidate in group.candidates:
        one = single.get(candidate.measurement.backend)
        if one is None or not candidate.usable or candidate.measurement.devices < 2:
            continue
        rows.append(
            [
                f"today, {text.plain(candidate.measurement.backend)}",
                "this machine",
                group.title,
                str(candidate.measurement.devices),
                text.time(one.median),
                text.time(candidate.median),
                text.number(one.ratio(candidate)),
            ]
        )
    return rows
