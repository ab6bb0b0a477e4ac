"""Under what circumstances it was measured: software, machine, settings and order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import msgspec

from xbackend import wording
from xbackend.analysis.comparison import label
from xbackend.analysis.disturbed import disturbed
from xbackend.analysis.packages import versions
from xbackend.backends.description import Description
from xbackend.drawing.graph import bytes_text
from xbackend.report.said import text
from xbackend.report.said.blocks import Block, paragraph, table, tabled
from xbackend.results.schema import Process, Results
from xbackend.wording import counted, plain

_NOT_FINISHED = [*[text.NOTHING] * 3, "did not finish", *[text.NOTHING] * 3]


def environment(results: Results) -> list[Block]:
    """Versions, threads and BLAS of each backend, as it read them back; a row for each different answer."""
    answers: dict[tuple[str, ...], list[int]] = {}
    for m in results.measurements:
        said = m.description
        if said != Description() or m.versions:
            blas = [{k: v for k, v in asdict(pool).items() if v is not None and k != "api"} for pool in said.blas]
            more = {**({"devices": said.devices} if said.devices else {}), **said.settings, **said.notes}
            cells = _listed(versions(m)), _listed(said.threads), _listed(blas), wording.pairs(more) or text.NOTHING
            answers.setdefault((label(m), *cells), []).append(m.devices)
    rows = [
        [backend, ", ".join(map(str, sorted(set(devices)))), *cells] for (backend, *cells), devices in answers.items()
    ]
    return tabled(("backend", "devices", "versions", "threads", "blas", "else"), rows)


def _listed(item: Any) -> str:
    """Data of a description as a line: mappings as ``key value``, lists of mappings by their values."""
    if item is None or item in ({}, []):
        return text.NOTHING
    if isinstance(item, Mapping):
        return ", ".join(f"{plain(key)} {_listed(value)}" for key, value in item.items())
    if isinstance(item, list | tuple):
        return "; ".join(_listed(value) for value in item)
    return wording.value(item)


def machine(results: Results) -> list[Block]:
    """The machine, a row for each fact."""
    facts = {
        "processor": results.machine.processor,
        "cores": results.machine.cores,
        "memory": bytes_text(results.machine.memory_bytes),
        "accelerators": ", ".join(results.machine.accelerators) or "none",
        "system": results.machine.system,
        "Python": results.machine.python,
        "fingerprint": results.machine.fingerprint,
    }
    return _facts("machine", facts)


def settings(results: Results) -> list[Block]:
    """The settings of the run."""
    return _facts("setting", msgspec.to_builtins(results.settings))


def _facts(name: str, facts: Mapping[str, Any]) -> list[Block]:
    return tabled((name, "value"), [[key, wording.value(value)] for key, value in facts.items()])


def order(results: Results) -> list[Block]:
    """In which order the candidates were measured, and when."""
    finished: dict[int, list[Process]] = {}
    for process in (process for row in results.measurements for process in row.processes):
        finished.setdefault(process.order, []).append(process)
    if not results.order and not finished:
        return [paragraph("Nothing was started.")]
    first = min((process.started for there in finished.values() for process in there), default=0.0)
    began = f"{datetime.fromtimestamp(first, UTC):%Y-%m-%d %H:%M:%S} UTC"
    labels = dict(enumerate(results.order))
    rows = []
    for position in sorted({*labels, *finished}):
        words = plain(labels.get(position, "not in the recorded order"))
        there = [_run(process, first) for process in finished.get(position, [])]
        rows += [[str(position), words, *cells] for cells in there or [_NOT_FINISHED]]
    headers = ("position", "candidate", "process began", "visits", "rounds", "time", "cores", "load", "others")
    return [
        paragraph(
            f"The first process that finished began at {began}; the others' beginnings count from there. "
            "Cores: those it could use. Load: the machine's load average of a minute when it began. "
            "Others: how many cores other processes kept busy meanwhile."
        ),
        *([paragraph(f"Disturbed: {said}.")] if (said := disturbed(results)) else []),
        table(headers, rows, right=("position", *headers[2:])),
    ]


def _run(process: Process, first: float) -> list[str]:
    return [
        f"{process.started - first:+.1f} s",
        str(len(process.visits)),
        f"{len(process.rounds)} of {counted(process.iterations, 'call')}",
        text.time(process.time),
        ", ".join(map(str, process.affinity or [])) or text.NOTHING,
        text.number(process.load, 2),
        text.number(process.foreign_cores, 2),
    ]
