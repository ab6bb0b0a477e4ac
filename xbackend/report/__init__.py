"""Stored results in, a report for people out: markdown with SVG plots beside it.

A report is a pure function of the results: the same data gives the same bytes. Nothing here measures.
"""

from __future__ import annotations

from pathlib import Path

from xbackend.measure.results import Results, save
from xbackend.report.overview import index, make_folder, write_file

__all__ = ["index", "render", "summary_table", "write"]


def render(results: Results, baseline: str | None = None) -> dict[str, bytes]:
    """The files of a report by name: ``report.md`` and its SVG plots.

    ``baseline`` is the backend whose time the ratios are taken over; left out, it is numpy if that was measured, else
    the first that gave a time. Raises `UsageError`, which lists the backends there are, if it is not in the results.
    """
    from xbackend.report.document import build
    from xbackend.report.markdown import write as markdown

    blocks, pictures = build(results, baseline)
    return {**pictures, "report.md": markdown(blocks).encode()}


def write(results: Results, folder: Path, baseline: str | None = None) -> Path:
    """Write ``results.json``, the plots and ``report.md`` into a folder, made if need be; returns the report's path.

    Raises `StoreError` where the folder cannot be written, and what `render` raises.
    """
    make_folder(folder)
    # What was measured is on disk before anything is made of it, so that no later error loses it.
    save(results, folder / "results.json")
    files = render(results, baseline)
    # The plots first: a report that is there has them.
    for name in sorted(files, key=lambda name: (name == "report.md", name)):
        write_file(folder / name, files[name])
    return folder / "report.md"


def summary_table(results: Results, baseline: str | None = None) -> tuple[list[str], list[list[str]]]:
    """The headers and the rows of the comparison over all workloads, as plain text without control characters.

    They are the rows of the report's own tables. Raises `UsageError` as `render` does.
    """
    from xbackend.report.candidates import groups
    from xbackend.report.tables import HEADERS, comparison_rows

    found = groups(results, baseline)
    return ["workload", *HEADERS], [[group.label, *row] for group in found for row in comparison_rows(group)]
