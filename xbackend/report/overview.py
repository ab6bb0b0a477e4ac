"""The index over all reports of a folder."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from xbackend.analysis.comparison import label
from xbackend.errors import StoreError, UsageError
from xbackend.files import refused, write_whole
from xbackend.report import text
from xbackend.report.blocks import Block, Heading, Hyperlink, Inline, paragraph, table
from xbackend.results.schema import Results, load

_HEADERS = ("report", "measured", "workloads", "backends", "devices", "gave a time", "machine", "xbackend", "page")


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
    good: list[tuple[str, list[Inline]]] = []
    damaged: list[list[Inline]] = []
    for stored in sorted(reports.glob("[!.]*/results.json")):
        folder = stored.parent.name
        try:
            results = load(stored)
        except StoreError as error:
            damaged.append([_name(folder, stored.parent), str(error).replace(str(stored), f"{folder}/results.json")])
            continue
        good.append((results.created, _row(folder, stored.parent, results)))
    good.sort(key=lambda entry: entry[0], reverse=True)  # those of one moment stay in the order of their names
    blocks: list[Block] = [Heading(1, "Reports")]
    if os.path.isfile(reports / "history.md"):
        blocks.append(paragraph("Over time: ", Hyperlink("history", "./history.md"), "."))
    if good:
        blocks.append(table(_HEADERS, [row for _, row in good], right=("gave a time",)))
    if damaged:
        blocks += [Heading(2, "Results that cannot be read"), table(("report", "reason"), damaged)]
    if not good and not damaged:
        blocks.append(paragraph("There is no report yet."))
    return blocks


def _name(folder: str, path: Path) -> Inline:
    """The report's name, a link where there is a report."""
    return _link(folder, folder, path, "report.md") or f"{folder} (no report.md)"


def _link(words: str, folder: str, path: Path, file: str) -> Hyperlink | None:
    """A link to a file of a report; `None` where there is none."""
    return Hyperlink(words, f"./{quote(folder, errors='replace')}/{file}") if os.path.isfile(path / file) else None


def _row(folder: str, path: Path, results: Results) -> list[Inline]:
    measurements = results.measurements
    gave = sum(m.status == "ok" for m in measurements)
    return [
        _name(folder, path),
        text.moment(results.created),
        ", ".join(dict.fromkeys(m.workload for m in measurements)),
        ", ".join(dict.fromkeys(label(m) for m in measurements)),
        ", ".join(map(str, sorted({m.devices for m in measurements}))),
        f"{gave} of {len(measurements)}" + ("" if results.complete else ", cut off"),
        results.machine.processor,
        results.xbackend,
        _link("HTML", folder, path, "report.html") or text.NOTHING,
    ]
