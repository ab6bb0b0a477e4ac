"""Under what circumstances it was measured: software, machine, settings, order and what others published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from xbackend import wording
from xbackend.analysis.statistics import ratio
from xbackend.report import text
from xbackend.report.blocks import Block, Hyperlink, Inline, Table, paragraph, table
from xbackend.report.candidates import LEVEL, Group, compared, label
from xbackend.report.published import PUBLISHED
from xbackend.report.versions import versions
from xbackend.results.schema import Process, Results
from xbackend.wording import plain

_MEANWHILE = ("cores", "load", "others")


def environment(results: Results) -> Table | None:
    """Versions, threads and BLAS of each backend, as it read them back; a row for each different answer."""
    answers: dict[tuple[str, str], tuple[list[int], Mapping[str, Any]]] = {}
    for m in results.measurements:
        if m.description or m.versions:
            described = {**m.description, "versions": versions(m)}
            answers.setdefault((label(m), wording.value(described)), ([], described))[0].append(m.devices)
    if not answers:
        return None
    known = ("versions", "threads", "blas")
    rows = [
        [
            backend,
            ", ".join(map(str, sorted(set(devices)))),
            *(_listed(description.get(key)) for key in known),
            wording.pairs({k: v for k, v in description.items() if k not in known}) or text.NOTHING,
        ]
        for (backend, _), (devices, description) in answers.items()
    ]
    return table(("backend", "devices", *known, "else"), rows)


def _listed(item: Any) -> str:
    """Data of a description as a line: mappings as ``key value``, lists of mappings by their values."""
    if item is None or item in ({}, []):
        return text.NOTHING
    if isinstance(item, Mapping):
        return ", ".join(f"{plain(key)} {_listed(value)}" for key, value in item.items())
    if isinstance(item, list | tuple):
        return "; ".join(_listed(value) for value in item)
    return wording.value(item)


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
    return table((name, "value"), [[plain(key), wording.value(value)] for key, value in facts.items()])


def pairs(results: Results, groups: Sequence[Group]) -> list[Block]:
    """The candidates that were measured against themselves, and the floors that follow; empty without any."""
    if not results.pairs:
        return []
    headers = ("workload", "backend", "devices", f"ratio of the halves ({LEVEL})", "processes")
    rows = []
    for pair in results.pairs:
        found = ratio(pair.second, pair.first)
        rows.append(
            [
                " ".join([plain(pair.workload), wording.pairs(pair.parameters)]),
                label(pair),
                str(pair.devices),
                text.ratio(found),
                f"{found.processes[0]} and {found.processes[1]}",
            ]
        )
    said = (
        "Measured against themselves, in two equal halves: what these differ by is noise. One division into halves is "
        "a draw, so the noise floor of a comparison is what halves of this size typically differ by (the root mean "
        "square), from the spread of all processes of the pairs with its workload and parameters, or, without any, the "
        "largest of the others; where two halves are shown to differ, what they differ by."
    )
    blocks: list[Block] = [paragraph(said), table(headers, rows, right=headers[2:])]
    floors = [[g.label, *_floor(g)] for g in groups if g.floor.processes]
    return [*blocks, table(("comparison", *_FLOOR), floors, right=_FLOOR[:3])] if floors else blocks


_FLOOR = ("noise floor", LEVEL, "processes", "from")


def _floor(group: Group) -> list[str]:
    floor = group.floor
    between = f"{text.percent(floor.low)} to {text.percent(floor.high)}"
    source = "halves that are shown to differ" if floor.observed else "the spread of all processes"
    return [text.percent(floor.factor), between, str(floor.processes), source]


def order(results: Results) -> list[Block]:
    """In which order the candidates were measured, and when."""
    finished: dict[int, list[Process]] = {}
    for process in (p for part in (results.measurements, results.pairs) for one in part for p in one.processes):
        finished.setdefault(process.order, []).append(process)
    if not results.order and not finished:
        return [paragraph("Nothing was started.")]
    starts = [p.started for found in finished.values() for p in found if math.isfinite(p.started)]
    first = min(starts, default=0.0)
    labels = dict(enumerate(results.order))
    rows = []
    for position in sorted({*labels, *finished}):
        words = plain(labels.get(position, "not in the recorded order"))
        found = finished.get(position, [])
        rows += [[str(position), words, *_run(p, first)] for p in found]
        if not found:
            # Before version 4 results had of the second half of an A/A pair its seconds alone.
            half = results.version < 4 and any(words.endswith(again) for again in ("| again", ", again"))
            end = "half of an A/A pair" if half else "did not finish"
            rows.append([str(position), words, *[text.NOTHING] * 3, end, *[text.NOTHING] * len(_MEANWHILE)])
    headers = ("position", "candidate", "process began", "rounds", "iterations", "median", *_MEANWHILE)
    return [
        paragraph(
            f"The first process that finished began at {_moment(first)}; the others' beginnings count from there. "
            "Cores: those it could use. Load: the machine's load average of a minute when it began. "
            "Others: how many cores other processes kept busy meanwhile."
        ),
        table(headers, rows, right=("position", *headers[2:])),
    ]


def _run(process: Process, first: float) -> list[str]:
    return [
        f"{process.started - first:+.1f} s",
        str(len(process.rounds)),
        str(process.iterations),
        text.time(process.median if process.rounds else None),
        ", ".join(map(str, process.affinity or [])) or text.NOTHING,
        text.number(process.load, 2),
        text.number(process.foreign_cores, 2),
    ]


def _moment(stamp: float) -> str:
    """Seconds since 1970 as a date in UTC, or the number itself where the calendar has no such date."""
    try:
        return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{stamp:g} s"


def published(groups: Sequence[Group]) -> list[Block]:
    """Today's times on one device and on several beside those that others published; empty without both."""
    blocks: list[Block] = []
    headers = (
        "source",
        "hardware",
        "what",
        "devices",
        "one device",
        "all devices",
        f"speed-up ({LEVEL})",
        "verdict",
    )
    for workload, entries in PUBLISHED.items():
        today = [row for g in groups if g.workload == workload for row in _today(g)]
        if not today:
            continue
        rows: list[list[Inline]] = [
            [
                Hyperlink(p.source, p.address),
                p.hardware,
                p.about,
                str(p.devices),
                text.time(p.one),
                text.time(p.many),
                f"{text.number(p.speedup)} (none published)",
                text.NOTHING,
            ]
            for p in entries
        ]
        blocks.append(table(headers, [*rows, *today], right=headers[3:7]))
    return blocks


def _today(group: Group) -> list[list[Inline]]:
    """A row for each backend that was measured on one device and on more."""
    single = {c.label: c for c in group.candidates if c.usable and c.measurement.devices == 1}
    rows: list[list[Inline]] = []
    for candidate in group.candidates:
        one = single.get(candidate.label)
        found = None if one is None else compared(one, candidate, group.floor)
        if one is None or found is None or candidate.measurement.devices < 2:
            continue
        # The verdict is on all devices, so that it is taken the other way round.
        verdict = compared(candidate, one, group.floor)
        rows.append(
            [
                f"today, {candidate.label}",
                "this machine",
                group.title,
                str(candidate.measurement.devices),
                text.time(one.time),
                text.time(candidate.time),
                text.ratio(found),
                text.NOTHING if verdict is None else text.verdict(verdict),
            ]
        )
    return rows
