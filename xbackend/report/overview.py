"""The index over all reports of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from xbackend.analysis.comparison import label
from xbackend.errors import StoreError, UsageError
from xbackend.files import refused, write_whole
from xbackend.report import kinds, text
from xbackend.report.blocks import Block, Heading, Hyperlink, Inline, bullets, paragraph, table
from xbackend.report.kinds import CLUSTER, COMPARISON, KINDS, TRAINING, Kind
from xbackend.results.clustered import Clustered, Jobs
from xbackend.results.schema import Measurement, Results
from xbackend.results.trained import Trained, Trainings
from xbackend.wording import counted, join

# For each kind its title, its own columns, and those of them that are numbers.
_TABLES = (
    ("", ("workloads", "backends", "devices", "gave a time", "xbackend"), ("gave a time",)),
    ("Trainings", ("model", "backends", "strategies", "ended"), ("ended",)),
    ("Jobs on clusters", ("job", "backends", "tasks", "steps", "lost", "ended"), ("steps", "lost", "ended")),
)

_PAGES = (
    "Each has a page of the same name, one file to open in a browser, with every figure, plot and drawing. Where it is "
    "not there, xbackend report writes it, from the data beside the report."
)


def index(reports: Path) -> Path:
    """Write ``index.md`` over the reports in the folders of ``reports``, the newest first; returns its path.

    Results that cannot be read are a row with the reason. Raises `UsageError` if there is no such folder, `StoreError`
    where the index cannot be written.
    """
    from xbackend.report.markdown import write

    if not os.path.isdir(reports):
        raise UsageError(f"there is no folder of reports {str(reports)!r}; run xbackend compare to make one")
    path = reports / "index.md"
    write_file(path, write(_blocks(reports)).encode())
    return path


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, its folder made if need be. Raises `StoreError`."""
    with refused(f"the report cannot be written to {path}"):
        write_whole(path, data)


def _blocks(reports: Path) -> list[Block]:
    rows: dict[str, list[tuple[str, list[Inline]]]] = {kind.data: [] for kind in KINDS}
    damaged: list[list[Inline]] = []
    there = kinds.there(reports)
    for folder, found in there.items():
        for kind in found:
            stored = reports / folder / kind.file
            try:
                data = kind.load(stored)
            except StoreError as error:
                why = str(error).replace(str(stored), f"{folder}/{stored.name}")
                damaged.append([_name(folder, stored.parent, kind), why])
                continue
            own = [_name(folder, stored.parent, kind), text.moment(data.created), *_TOLD[kind.data](data)]
            rows[kind.data].append((data.created, [*own, data.machine.processor]))
    blocks: list[Block] = [Heading(1, "Reports"), *([paragraph(_PAGES)] if there else [])]
    if os.path.isfile(reports / "history.md"):
        blocks.append(paragraph("Over time: ", Hyperlink("history", "./history.md"), "."))
    for kind, (title, headers, right) in zip(KINDS, _TABLES, strict=True):
        # The newest first; those of one moment stay in the order of their names.
        newest = sorted(rows[kind.data], key=lambda entry: entry[0], reverse=True)
        if newest:
            blocks += [Heading(2, title)] if title else []
            blocks.append(table(("report", "measured", *headers, "machine"), [r for _, r in newest], right=right))
    if damaged:
        blocks += [Heading(2, "Results that cannot be read"), table(("report", "reason"), damaged)]
    others = [path for path in sorted(reports.glob("[!.]*/*.md")) if path.parent.name not in there and path.is_file()]
    if others:
        blocks += [Heading(2, "Other documents"), bullets(*([_other(path)] for path in others))]
    if not there and not others:
        blocks.append(paragraph("There is no report yet."))
    return blocks


def _other(path: Path) -> Hyperlink:
    """A link to a document that no command of `xbackend` wrote."""
    return Hyperlink(
        f"{path.parent.name}/{path.name}", f"./{quote(path.parent.name, errors='replace')}/{quote(path.name)}"
    )


def _name(folder: str, path: Path, kind: Kind) -> Inline:
    """The report's name, a link where there is a report."""
    document = f"{kind.document}.md"
    if not os.path.isfile(path / document):
        return f"{folder} (no {document})"
    return Hyperlink(folder, f"./{quote(folder, errors='replace')}/{document}")


def _comparison(results: Results) -> list[Inline]:
    measurements = results.measurements
    return [
        _each(m.workload for m in measurements),
        _each(label(m) for m in measurements),
        _each(map(str, sorted({m.devices for m in measurements}))),
        _of(measurements) + ("" if results.complete else ", cut off"),
        results.xbackend,
    ]


def _training(done: Trainings) -> list[Inline]:
    strategies = [f"{run.strategy} ({counted(run.devices, 'device')})" for run in done.runs]
    return [done.model, _each(run.backend for run in done.runs), _each(strategies), _of(done.runs)]


def _cluster(done: Jobs) -> list[Inline]:
    servers = [counted(done.servers, "server")] if done.servers else []
    order = "asynchronous" if done.asynchronous else "in step"
    return [
        done.job,
        _each(run.backend for run in done.runs),
        f"{join([counted(done.workers, 'worker'), *servers])}, {order}",
        str(done.steps),
        str(sum(len(run.faults) for run in done.runs)),
        _of(done.runs),
    ]


def _each(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _of(runs: Sequence[Measurement | Trained | Clustered]) -> str:
    return f"{sum(run.status == 'ok' for run in runs)} of {len(runs)}"


_TOLD: dict[str, Callable[[Any], list[Inline]]] = {
    COMPARISON.data: _comparison,
    TRAINING.data: _training,
    CLUSTER.data: _cluster,
}
