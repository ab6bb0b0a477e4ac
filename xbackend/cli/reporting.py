"""``report`` and ``history``: what was measured, written for people."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from xbackend import report as reports
from xbackend.cli import DONE, INCOMPLETE
from xbackend.cli.console import say, table
from xbackend.errors import StoreError, UsageError
from xbackend.results import schema
from xbackend.results.runs import Store
from xbackend.results.schema import Results
from xbackend.wording import plain, unfinished


def report(options: argparse.Namespace) -> int:
    """Write reports, of a stored run or again from their own results, and the index over all of them."""
    if options.run is not None:
        if options.names:
            raise UsageError(f"--run is a report of its own: leave out it or {' '.join(options.names)}")
        _of_run(options)
    else:
        if options.name is not None:
            raise UsageError("--name is what the report of a --run is called")
        _again(options)
    say(f"index: {reports.index(options.reports)}")
    return DONE


def _of_run(options: argparse.Namespace) -> None:
    store = Store(options.store)
    running = store.running(options.run)
    results = store.load(options.run)
    path = reports.write(
        results, options.reports / _folder(options.name or results.run or results.name), options.baseline
    )
    if not results.complete:
        say(f"This run {unfinished(running)}: the report is of its finished processes only.", error=True)
    say(f"report: {path}")


def _folder(name: str) -> str:
    """A name as that of a folder in the folder of reports, whatever a file says that it is."""
    return re.sub(r"[^\w.+-]+", "-", name).strip(".-")[:100] or "run"


def _again(options: argparse.Namespace) -> None:
    folder: Path = options.reports
    found = sorted(p.parent for p in folder.glob("[!.]*/results.json"))
    names = {p.name for p in found}
    unknown = sorted(set(options.names) - names)
    if unknown or not found:
        there = ", ".join(sorted(names)) or "none"
        raise UsageError(
            f"there is no report {', '.join(unknown) or 'at all'} in {folder}; there is {there}; "
            "xbackend compare makes one"
        )
    for path in found:
        if not options.names or path.name in options.names:
            say(f"report: {reports.write(schema.load(path / 'results.json'), path, options.baseline)}")


def history(options: argparse.Namespace) -> int:
    """Write the history of the runs in the store; in part done where one of them cannot be read."""
    from xbackend.analysis.history import series
    from xbackend.report.history import change_table

    runs, damaged = readable(Store(options.store))
    if not runs and not damaged:
        raise UsageError(f"there is no run in {options.store}; xbackend compare makes one")
    found = reports.render_history(runs, options.workload, damaged)
    headers, rows = change_table(series(runs, options.workload))
    if rows:
        table(headers, rows, title="Shown to be faster or slower than in the run before")
    else:
        say("Nothing is shown to be faster or slower than in the run before.")
    for name, reason in damaged:
        say(f"left out: run {plain(name)} is damaged: {plain(reason)}", error=True)
    reports.make_folder(options.reports)
    say(f"history: {reports.write_files(found, options.reports, 'history.md')}")
    say(f"index: {reports.index(options.reports)}")
    return INCOMPLETE if damaged else DONE


def readable(store: Store) -> tuple[list[Results], list[tuple[str, str]]]:
    """The runs of the store that can be read, the oldest first, and the others with the reason. Changes nothing."""
    found: list[Results] = []
    damaged: list[tuple[str, str]] = []
    for info in store.runs():
        if info.damaged:
            damaged.append((info.name, info.damaged))
            continue
        try:
            found.append(store.load(info.name))
        except StoreError as error:  # damaged since it was listed
            damaged.append((info.name, str(error)))
    return sorted(found, key=lambda run: run.created), damaged
