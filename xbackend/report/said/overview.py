"""The index over all reports of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from xbackend.analysis.comparison import label
from xbackend.errors import StoreError
from xbackend.report import kinds
from xbackend.report.said import cluster, text
from xbackend.report.said.blocks import AnyBlock, Heading, Hyperlink, Inline, paragraph, points, records, section
from xbackend.results.clustered import Jobs
from xbackend.results.schema import Measurement, Outcome, Results, read
from xbackend.results.trained import Trainings
from xbackend.wording import counted

_NUMBERS = ("gave a time", "steps", "lost", "ended")
_PAGES = (
    "Each has a page of the same name, one file to open in a browser, with every figure, plot and drawing. Where it is "
    "not there, xbackend report writes it, from the data beside the report."
)


def blocks(reports: Path) -> list[AnyBlock]:
    """The index as blocks: a table for each kind of report, the newest first, what cannot be read, and the rest."""
    rows: dict[kinds.ReportKind, list[tuple[str, dict[str, Inline]]]] = {kind: [] for kind in _TOLD}
    damaged: list[dict[str, Inline]] = []
    there = kinds.there(reports)
    for folder, kind in ((folder, kind) for folder, found in there.items() for kind in found):
        stored, document = reports / folder / kind.file, f"{kind.document}.md"
        written = os.path.isfile(reports / folder / document)
        name = _link(folder, folder, document) if written else f"{folder} (no {document})"
        try:
            told: Any = read(stored, kind.told)
        except StoreError as error:
            reason = str(error).replace(str(stored), f"{folder}/{stored.name}")
            damaged.append({"report": name, "reason": reason})
            continue
        own = {"report": name, "measured": text.moment(told.created), **_TOLD[kind][1](told)}
        rows[kind].append((told.created, {**own, "machine": told.machine.processor}))
    said: list[AnyBlock] = [Heading(1, "Reports"), *([paragraph(_PAGES)] if there else [])]
    if os.path.isfile(reports / "history.md"):
        said.append(paragraph("Over time: ", Hyperlink("history", "./history.md"), "."))
    for kind, (title, _) in _TOLD.items():
        # The newest first; those of one moment stay in the order of their names.
        newest = [row for _, row in sorted(rows[kind], key=lambda entry: entry[0], reverse=True)]
        said += section(title, records(newest, right=_NUMBERS))
    said += section("Results that cannot be read", records(damaged))
    others = [path for path in sorted(reports.glob("[!.]*/*.md")) if path.parent.name not in there and path.is_file()]
    links = [_link(f"{path.parent.name}/{path.name}", path.parent.name, path.name) for path in others]
    said += section("Other documents", points([link] for link in links))
    return said if there or others else [*said, paragraph("There is no report yet.")]


def _link(words: str, folder: str, name: str) -> Hyperlink:
    return Hyperlink(words, f"./{quote(folder, errors='replace')}/{quote(name)}")


def _comparison(results: Results) -> dict[str, Inline]:
    measurements = results.measurements
    return {
        "workloads": _each(m.workload for m in measurements),
        "backends": _each(label(m) for m in measurements),
        "devices": _each(map(str, sorted({m.devices for m in measurements}))),
        "gave a time": _of(measurements) + ("" if results.complete else ", cut off"),
        "xbackend": results.xbackend,
    }


def _training(done: Trainings) -> dict[str, Inline]:
    strategies = _each(f"{run.strategy} ({counted(run.devices, 'device')})" for run in done.runs)
    backends = _each(run.backend for run in done.runs)
    return {"model": done.model, "backends": backends, "strategies": strategies, "ended": _of(done.runs)}


def _cluster(done: Jobs) -> dict[str, Inline]:
    return {
        "job": done.job,
        "backends": _each(run.backend for run in done.runs),
        "tasks": f"{cluster.tasks(done)}, {cluster.order(done)}",
        "steps": str(done.steps),
        "lost": str(sum(len(run.faults) for run in done.runs)),
        "ended": _of(done.runs),
    }


def _each(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _of(runs: Sequence[Measurement | Outcome]) -> str:
    return f"{sum(run.status == 'ok' for run in runs)} of {len(runs)}"


# The title of each kind, and the cells of its rows.
_TOLD: dict[kinds.ReportKind, tuple[str, Callable[[Any], dict[str, Inline]]]] = {
    kinds.COMPARISON: ("Comparisons", _comparison),
    kinds.TRAINING: ("Trainings", _training),
    kinds.CLUSTER: ("Jobs on clusters", _cluster),
}
