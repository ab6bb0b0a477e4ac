"""Under what circumstances it was measured: software, machine, settings and order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import msgspec

from xbackend.analysis.comparison import label
from xbackend.analysis.disturbed import disturbed
from xbackend.analysis.packages import versions
from xbackend.backends.description import Description
from xbackend.drawing.graph import bytes_text
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, paragraph, records, table
from xbackend.results.schema import Process, Results
from xbackend.wording import counted, grouped, pairs, plain, value

_ORDER = (
    "The first process that finished began at {}; the others' beginnings count from there. Cores: those it could use. "
    "Load: the machine's load average of a minute when it began. Others: how many cores other processes kept busy "
    "meanwhile."
)
_ON_GPUS = " GPUs: what NVML told of them during the rounds."


def environment(results: Results) -> list[AnyBlock]:
    """Versions, threads and BLAS of each backend, as it read them back; a row for each different answer."""
    answers = []
    for m in results.measurements:
        said = m.description
        if said != Description() or m.versions:
            blas = [{k: v for k, v in asdict(pool).items() if v is not None and k != "api"} for pool in said.blas]
            more = {**({"devices": said.devices} if said.devices else {}), **said.settings, **said.notes}
            cells = _listed(versions(m)), _listed(said.threads), _listed(blas), pairs(more) or text.NOTHING
            answers.append(((label(m), *cells), m.devices))
    found = grouped(answers).items()
    rows = [[name, ", ".join(map(str, sorted(set(devices)))), *each] for (name, *each), devices in found]
    return [table(("backend", "devices", "versions", "threads", "blas", "else"), rows)] if rows else []


def _listed(item: Any) -> str:
    """Data of a description as a line: mappings as ``key value``, lists of mappings by their values."""
    if item is None or item in ({}, []):
        return text.NOTHING
    if isinstance(item, Mapping):
        return ", ".join(f"{plain(key)} {_listed(each)}" for key, each in item.items())
    return "; ".join(map(_listed, item)) if isinstance(item, list | tuple) else value(item)


def machine(results: Results) -> list[AnyBlock]:
    """The machine, a row for each fact."""
    told = results.machine
    memory, accelerators = bytes_text(told.memory_bytes), ", ".join(told.accelerators) or "none"
    facts = msgspec.to_builtins(told) | {"memory_bytes": memory, "accelerators": accelerators}
    return _facts("machine", {name.removesuffix("_bytes"): fact for name, fact in facts.items()})


def settings(results: Results) -> list[AnyBlock]:
    return _facts("setting", msgspec.to_builtins(results.settings))


def _facts(name: str, facts: Mapping[str, Any]) -> list[AnyBlock]:
    return records([{name: key, "value": value(fact)} for key, fact in facts.items()])


def order(results: Results) -> list[AnyBlock]:
    """In which order the candidates were measured, and when."""
    own = [row for row in results.measurements if not row.reused]
    finished = grouped((process.order, process) for row in own for process in row.processes)
    if not results.order and not finished:
        return [paragraph("Nothing was started.")]
    first = min((process.started for there in finished.values() for process in there), default=0.0)
    labels, rows = dict(enumerate(results.order)), list[dict[str, str]]()
    on_gpus = any(process.gpus for there in finished.values() for process in there)
    for position in sorted({*labels, *finished}):
        name = plain(labels.get(position, "not in the recorded order"))
        for process in finished.get(position, [None]):
            rows.append({"position": str(position), "candidate": name, **_run(process, first)})
            if on_gpus:
                rows[-1]["gpus"] = "; ".join(map(plain, (process and process.gpus) or ())) or text.NOTHING
    disturbances = [paragraph(f"Disturbed: {said}.")] if (said := disturbed(results)) else []
    reading = _ORDER + _ON_GPUS * on_gpus
    began = paragraph(reading.format(f"{datetime.fromtimestamp(first, UTC):%Y-%m-%d %H:%M:%S} UTC"))
    return [began, *disturbances, *records(rows, words=("candidate", "gpus"))]


def _run(process: Process | None, first: float) -> dict[str, str]:
    """The cells of a process in the table of the order; `None` of one that did not finish."""
    empty = dict.fromkeys(("process began", "visits", "rounds", "time", "cores", "load", "others"), text.NOTHING)
    if process is None:
        return {**empty, "time": "did not finish"}
    return {
        "process began": f"{process.started - first:+.1f} s",
        "visits": str(len(process.visits)),
        "rounds": f"{len(process.rounds)} of {counted(process.iterations, 'call')}",
        "time": text.time(process.time),
        "cores": ", ".join(map(str, process.affinity or [])) or text.NOTHING,
        "load": text.number(process.load, 2),
        "others": text.number(process.foreign_cores, 2),
    }
