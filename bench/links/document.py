"""Measurements and predictions as a folder of files: a document with its pictures and data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from links import predictions
from links.picture import picture
from links.predictions import KINDS, Found
from links.scaling import WAYS, Job, Point, daly, half, most
from xbackend.report.said import text
from xbackend.report.said.blocks import AnyBlock, Heading, Image, paragraph, table
from xbackend.report.written import markdown
from xbackend.results.schema import Machine
from xbackend.wording import counted, percent, plain

_TITLES = {"measured": "The step that was measured", "data-centre": "A larger step in a data centre (assumed)"}


def write(folder: Path, found: Sequence[Found], machine: Machine, created: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    curves = predictions.curves(found)
    for key, (_, points) in curves.items():
        (folder / f"{key}.svg").write_bytes(picture(points, _TITLES[key]))
    (folder / "report.md").write_text(document(found, machine, created), encoding="utf-8")
    data = predictions.data(found, created, msgspec.to_builtins(machine))
    (folder / "scaling.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def document(found: Sequence[Found], machine: Machine, created: str) -> str:
    """Markdown."""
    where = f"Measured {created} on {machine.processor}, {machine.cores} cores, {machine.system}, two ranks of MPI."
    rows = [row for one in found for row in one.rows]
    good = sum(abs(row.miss) <= predictions.MISS_LIMIT for row in rows)
    limit = percent(1 + predictions.MISS_LIMIT)
    blocks: list[AnyBlock] = [
        Heading(1, "Scaling: the model beside shaped links"),
        paragraph(plain(where)),
        paragraph(f"{good} of {len(rows)} predictions are within {limit} of what was measured."),
        Heading(2, "Links"),
        _links(found),
        Heading(2, "Predicted and measured"),
        _rows(found),
    ]
    for key, (job, points) in predictions.curves(found).items():
        blocks += [Heading(2, _TITLES[key]), paragraph(_words(job)), Image(f"{key}.svg", _TITLES[key]), _ends(points)]
    return markdown.write(blocks)


def _links(found: Sequence[Found]) -> AnyBlock:
    headers = ("link", "latency measured", "bandwidth measured", "compute", "its deviation")
    rows = [
        [
            one.name,
            text.time(one.link.latency),
            f"{text.number(one.link.bandwidth * 8e-6)} Mbit/s",
            text.time(one.compute.mean),
            text.time(one.compute.deviation),
        ]
        for one in found
    ]
    return table(headers, rows, right=headers[1:])


def _rows(found: Sequence[Found]) -> AnyBlock:
    headers = ("link", "what", "bytes", "predicted", "measured", "from", "to", "miss")
    rows = [
        [
            one.name,
            KINDS[row.kind],
            f"{row.nbytes}",
            *(text.time(seconds) for seconds in (row.predicted, row.measured, row.low, row.high)),
            f"{100 * row.miss:+.1f} %",
        ]
        for one in found
        for row in one.rows
    ]
    return table(headers, rows, right=headers[2:])


def _words(job: Job) -> str:
    f, link, between = job.faults, job.link, job.faults.between(1000)
    return (
        f"{job.nbytes / 1e6:.3g} MB, compute {text.time(job.compute.mean)} (deviation "
        f"{text.time(job.compute.deviation)}), latency {text.time(link.latency)}, "
        f"{round(link.bandwidth * 8e-6)} Mbit/s, parameter servers: {job.servers.count}; a process dies {f.rate:g} "
        f"times an hour, is missed after {f.detection:g} s, is back after {f.restart:g} s more, a checkpoint takes "
        f"{f.checkpoint:g} s. With 1 000 workers something dies every {text.time(between)}, and Daly's interval is "
        f"{text.time(daly(f.checkpoint, between))}."
    )


def _ends(points: Sequence[Point]) -> AnyBlock:
    shown = [p for p in points if p.workers in (1, 10, 100, 1000)]
    headers = ("way", *(counted(p.workers, "worker") for p in shown), "with faults", "most", "less than half from")
    rows = []
    for way in WAYS:
        at, best = most(points, way)
        ends = half(points, way)
        speedups = [text.number(p.speedups[way]) for p in shown]
        faulty = text.number(shown[-1].with_faults[way])
        rows.append(
            [way, *speedups, faulty, f"{text.number(best)} at {at}", text.NOTHING if ends is None else f"{ends}"]
        )
    return table(headers, rows, right=headers[1:])
