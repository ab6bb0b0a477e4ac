"""Stored results in, a report for people out: markdown with SVG plots beside it, and the same as one HTML page.

A report is a pure function of the results: the same data gives the same bytes. Nothing here measures.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from xbackend.errors import DamagedStore, StoreError, UsageError
from xbackend.files import read_file, refused, write_whole
from xbackend.report import kinds
from xbackend.report.said.blocks import AnyBlock, Image
from xbackend.results.packing import packed
from xbackend.results.schema import Results, StoredFile, load, sealed

__all__ = ["files", "index", "render", "write", "write_files", "write_times"]


def render(told: StoredFile, baseline: str | None = None) -> dict[str, bytes]:
    """The files of a report by name: markdown, the SVG plots that it shows, and a page, which has more.

    ``baseline`` is the backend or the environment that times are divided by: numpy if left out and measured, else the
    first that gave a time. Raises `UsageError`, which lists those there are, if it is not in the results.
    """
    kind = kinds.of(told)
    return files(kind.document, *kind.build(told, baseline))


def files(name: str, blocks: Sequence[AnyBlock], pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """A document as ``<name>.md``, the pictures that it shows beside it, and as ``<name>.html``, which holds all."""
    from xbackend.report.written import html, markdown
    from xbackend.report.written.writing import flat

    shown = {block.file: pictures[block.file] for block in flat(blocks, page=False) if isinstance(block, Image)}
    documents = {f"{name}.html": html.write(blocks, pictures), f"{name}.md": markdown.write(blocks)}
    return {**shown, **{file: text.encode() for file, text in documents.items()}}


def write(told: StoredFile, folder: Path, baseline: str | None = None, *, again: bool = False) -> Path:
    """Write a report and its data into a folder, made if need be; returns the path of the document.

    Each file is written whole, the document last. Then plots that only the previous report showed are removed. Other
    files stay, with ``again`` also the data. Raises what `render` raises, and `StoreError` where the folder cannot be
    written; then nothing has changed.
    """
    kind, before = kinds.of(told), ""
    document, written = f"{kind.document}.md", render(told, baseline)
    if not again:
        written[kind.file] = packed(sealed(told))
    with suppress(OSError, DamagedStore):
        before = read_file(folder / document).decode(errors="replace")
    path = write_files(written, folder, document)
    with refused(f"the report cannot be written to {folder}"):
        for plot in folder.glob("*.svg"):
            if f"({plot.name})" in before and plot.name not in written:
                plot.unlink(missing_ok=True)
    return path


def write_times(results: Results, folder: Path, baseline: str | None = None) -> Path | None:
    """As `write`, but nothing is written where the report in the folder has times and these results have none."""
    if not _has_times(results):
        with suppress(StoreError):  # one that cannot be read does not stay
            if _has_times(load(folder / kinds.COMPARISON.file)):
                return None
    return write(results, folder, baseline)


def _has_times(results: Results) -> bool:
    return any(m.status == "ok" for m in results.measurements)


def write_files(files: Mapping[str, bytes], folder: Path, last: str) -> Path:
    """Write files whole into a folder, ``last`` at the end; returns its path. Raises `StoreError`."""
    for name in sorted(files, key=lambda name: (name == last, name)):
        with refused(f"the report cannot be written to {folder / name}"):
            write_whole(folder / name, files[name])
    return folder / last


def index(reports: Path) -> Path:
    """Write ``index.md`` over the reports in the folders of ``reports``; returns its path.

    Raises `UsageError` if there is no such folder, `StoreError` where the index cannot be written.
    """
    from xbackend.report.said import overview
    from xbackend.report.written import markdown

    if not os.path.isdir(reports):
        raise UsageError(f"there is no folder of reports {str(reports)!r}; run xbackend compare to make one")
    return write_files({"index.md": markdown.write(overview.blocks(reports)).encode()}, reports, "index.md")
