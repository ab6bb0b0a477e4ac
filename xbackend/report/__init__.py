"""Stored results in, a report for people out: markdown with SVG plots beside it, and the same as one HTML page.

A report is a pure function of the results: the same data gives the same bytes. Nothing here measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from xbackend.errors import DamagedStore, StoreError
from xbackend.files import read_file, refused
from xbackend.report.blocks import Block, Image
from xbackend.report.kinds import CLUSTER, COMPARISON, TRAINING, Kind
from xbackend.report.overview import index, write_file
from xbackend.results import clustered, schema, trained
from xbackend.results.packing import packed
from xbackend.results.schema import Results, encode

__all__ = [
    "index",
    "render",
    "render_history",
    "summary_table",
    "terminal_lines",
    "write",
    "write_again",
    "write_files",
    "write_jobs",
    "write_times",
    "write_trainings",
]


def render(results: Results, baseline: str | None = None) -> dict[str, bytes]:
    """The files of a report by name: ``report.md``, the SVG plots that it shows, and ``report.html``, which has more.

    ``baseline`` is the backend whose time the ratios are taken over, or the environment; left out, it is numpy if that
    was measured, else the first that gave a time. Raises `UsageError`, which lists those there are, if it is not in the
    results.
    """
    from xbackend.report.document import build

    return files("report", *build(results, baseline))


def files(name: str, blocks: Sequence[Block], pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """A document as ``<name>.md``, the pictures that it shows beside it, and as ``<name>.html``, which holds all."""
    from xbackend.report import html, markdown
    from xbackend.report.folding import for_markdown

    shown = {block.file: pictures[block.file] for block in for_markdown(blocks) if isinstance(block, Image)}
    written = {f"{name}.html": html.write(blocks, pictures), f"{name}.md": markdown.write(blocks)}
    return {**shown, **{file: text.encode() for file, text in written.items()}}


def write(results: Results, folder: Path, baseline: str | None = None, data: bytes | None = None) -> Path:
    """Write ``results.json.gz``, the plots, ``report.html`` and ``report.md`` into a folder, made if need be; returns
    the path of the last.

    Each is written whole, the last of them at the end; then plots go that only the report before showed. Other files in
    the folder stay. What was measured is in the store before. ``data`` is what ``results.json.gz`` holds already, which
    stays as it is.

    Raises `StoreError` where the folder cannot be written, and what `render` raises; then nothing has changed.
    """
    written = render(results, baseline)
    if data is None:
        written[COMPARISON.file] = packed(encode(results, folder / COMPARISON.file))
    before = _plots(folder)
    path = write_files(written, folder, "report.md")
    for plot in before - set(written):
        with refused(f"the report cannot be written to {folder}"):
            (folder / plot).unlink(missing_ok=True)
    return path


def write_times(results: Results, folder: Path, baseline: str | None = None) -> Path | None:
    """As `write`, but a report that has times stays where these results have none: then nothing is written."""
    if not _has_times(results):
        with suppress(StoreError):  # one that cannot be read does not stay
            if _has_times(schema.load(folder / COMPARISON.file)):
                return None
    return write(results, folder, baseline)


def _has_times(results: Results) -> bool:
    """Whether any attempt gave a time."""
    return any(m.status == "ok" for m in results.measurements)


def _plots(folder: Path) -> set[str]:
    """The plots in a folder that the report there shows."""
    try:
        shown = read_file(folder / "report.md").decode(errors="replace")
        return {path.name for path in folder.glob("*.svg") if f"({path.name})" in shown}
    except (OSError, DamagedStore):
        return set()


def write_trainings(done: trained.Trainings, folder: Path, data: bytes | None = None) -> Path:
    """Write ``training.json.gz``, the pictures, ``training.html`` and ``training.md`` into a folder, made if need be;
    returns the path of the last. ``data`` as of `write`. Raises `StoreError`."""
    from xbackend.report import training

    content = {**files("training", *training.build(done)), TRAINING.file: data or packed(trained.encode(done))}
    return write_files(content, folder, "training.md")


def write_jobs(done: clustered.Jobs, folder: Path, data: bytes | None = None) -> Path:
    """As `write_trainings`, ``cluster.json.gz``, ``cluster.html`` and ``cluster.md``."""
    from xbackend.report import cluster

    content = {**files("cluster", *cluster.build(done)), CLUSTER.file: data or packed(clustered.encode(done))}
    return write_files(content, folder, "cluster.md")


def write_again(kind: Kind, folder: Path, baseline: str | None = None) -> Path:
    """Write a report again from the data in its folder, which stay as they are; returns its path. Raises as loading and
    writing them."""
    path = folder / kind.file
    with refused(f"{path} cannot be read"):
        data = read_file(path)
    done = kind.load(path)
    if kind is TRAINING:
        return write_trainings(done, folder, data)
    if kind is CLUSTER:
        return write_jobs(done, folder, data)
    return write(done, folder, baseline, data)


def write_files(files: Mapping[str, bytes], folder: Path, last: str) -> Path:
    """Write files into a folder, made if need be, the plots first, so that a document that is there has them."""
    for name in sorted(files, key=lambda name: (name == last, name)):
        write_file(folder / name, files[name])
    return folder / last


def render_history(
    runs: Sequence[Results], workload: str | None = None, damaged: Sequence[tuple[str, str]] = ()
) -> dict[str, bytes]:
    """The files of a history by name: ``history.md``, ``history.html`` and the plots of the former.

    ``runs`` are the oldest first, ``damaged`` those that cannot be read, each with the reason; ``workload`` leaves out
    all others. Raises `UsageError` where it is in no run.
    """
    from xbackend.report.history import build

    return files("history", *build(runs, workload, damaged))


def summary_table(results: Results, baseline: str | None = None) -> tuple[list[str], list[list[str]]]:
    """The headers and the rows of the comparison over all workloads, as plain text without control characters.

    They are the rows of the report's own tables. Raises `UsageError` as `render` does.
    """
    from xbackend.analysis.comparison import comparisons
    from xbackend.report.terminal import all_columns

    return all_columns(comparisons(results, baseline))


def terminal_lines(
    results: Results, baseline: str | None = None, width: int | None = None, wide: bool = False
) -> list[str]:
    """What a terminal shows of results, as `report.terminal.lines` says."""
    from xbackend.report.terminal import lines

    return lines(results, baseline, width, wide)
