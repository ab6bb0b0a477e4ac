"""``history``: how the runs of the store compare over time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from xbackend import report, workloads
from xbackend.analysis.history import changes, series
from xbackend.cli import DONE, INCOMPLETE, options, output
from xbackend.cli.console import progress, say, table
from xbackend.cli.output import Output
from xbackend.errors import UsageError
from xbackend.report.said.history import build, change_rows
from xbackend.results import FOLDER
from xbackend.results.runs import Store
from xbackend.wording import counted, plain

_WORKLOAD = options.option(str, "WORKLOAD", "which workload (default: all)", lambda _: workloads.names())


def history(
    workload: Annotated[str | None, _WORKLOAD] = None,
    /,
    *,
    store: options.Store = FOLDER,
    reports: options.Reports = Path("reports"),
    printed: options.Printed = options.PRINTED,
) -> Output:
    """Write the history of the runs in the store; `INCOMPLETE` where one of them cannot be read."""
    runs, damaged = Store(store).readable()
    if not runs and not damaged:
        raise UsageError(f"there is no run in {store}; xbackend compare makes one")
    with progress() as shown:
        shown(f"drawing the history of {counted(len(runs), 'run')}")
        found = series(runs, workload)
        files = report.files("history", *build(runs, found, workload, damaged))
    rows = change_rows(found)
    answer = f"{counted(len(rows), 'measurement')} shown to be faster or slower than in the run before"
    if rows:
        cells = [[*row.values()] for row in rows]
        table([*rows[0]], cells, title="Shown to be faster or slower than in the run before")
    else:
        say(answer := "Nothing is shown to be faster or slower than in the run before.")
    for name, reason in damaged:
        say(f"left out: run {plain(name)} is damaged: {plain(reason)}", error=True)
    say(f"history: {(document := report.write_files(files, reports, 'history.md'))}")
    say(f"index: {(index := report.index(reports))}")
    return output.History(
        exit_code=INCOMPLETE if damaged else DONE,
        answer=answer,
        notes=[f"run {name} is damaged: {reason}" for name, reason in damaged],
        files=[str(document), str(index)],
        rows=[output.change(*each) for each in changes(found)],
    )
