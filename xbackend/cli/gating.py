"""``runs`` and ``gate``: what the store holds, and whether it got slower."""

from __future__ import annotations

import argparse

from xbackend import report as reports
from xbackend.analysis import gate as gates
from xbackend.analysis.gate import Limit, Row
from xbackend.cli import DONE
from xbackend.cli.console import say, table
from xbackend.cli.reporting import readable
from xbackend.errors import UsageError
from xbackend.report import text
from xbackend.results.runs import RunInfo, Store
from xbackend.wording import plain, unfinished

DEFAULT = "slower:5%"


def runs(options: argparse.Namespace) -> int:
    """List the runs of the store, or show one."""
    store = Store(options.store)
    if options.run is not None:
        return _show(store, options.run)
    found = store.runs()
    if not found:
        say(f"there is no run in {store.folder}; xbackend compare makes one")
        return DONE
    headers = ["run", "workload or name", "measured", "gave a time", "rounds", "state"]
    table(headers, [_line(run) for run in found])
    return DONE


def _line(run: RunInfo) -> list[str]:
    if run.damaged:
        return [plain(run.name), "", "", "", "", f"damaged: {plain(run.damaged)}"]
    state = "complete" if run.complete else "being measured" if run.running else "cut off"
    gave = f"{run.measurements} of {run.of}"
    return [*map(plain, (run.name, run.title, run.created)), gave, str(run.rounds), state]


def _show(store: Store, name: str) -> int:
    running = store.running(name)  # before it is read: one that ends meanwhile is complete
    results = store.load(name)
    headers, rows = reports.summary_table(results)
    table(headers, rows, title=plain(f"{results.run or results.name}, {results.created}"))
    if not results.complete:
        say(f"This run {unfinished(running)}: it has its finished processes only.")
    return DONE


def gate(options: argparse.Namespace) -> int:
    """Judge a run by another one; the exit code is a `gates.Outcome`."""
    limits = [Limit.parse(one) for one in options.fail or [DEFAULT]]
    store = Store(options.store)
    # Before they are read: one that ends meanwhile is complete.
    running = [side for side, name in (("BASE", options.base), ("HEAD", options.head)) if store.running(name)]
    base, head = store.load(options.base), store.load(options.head)
    if base.run and base.run == head.run:
        raise UsageError(f"BASE and HEAD are both the run {base.run}: a run is not judged by itself")
    runs, damaged = readable(store)
    found = gates.judge(base, head, limits, running, runs)
    if found.rows:
        headers = ["measurement", "BASE", "HEAD", "ratio (interval)", "verdict", "could be found", "gate"]
        table(headers, [_judged(row) for row in found.rows])
    for name, reason in damaged:
        say(f"left out of what is known of sessions: run {plain(name)} is damaged: {plain(reason)}")
    for note in [*(f"{row.label}: {row.reason}" for row in found.rows if row.reason), *found.notes]:
        say(plain(note))
    say(f"gate {', '.join(map(str, limits))}: {_words(found.outcome)}: {plain(found.reason)}")
    return int(found.outcome)


def _judged(row: Row) -> list[str]:
    compared = [text.NOTHING] * 3
    if row.ratio is not None:
        compared = [text.ratio(row.ratio), str(row.ratio.verdict), text.percent(row.ratio.smallest)]
    return [plain(row.label), text.time(row.base), text.time(row.head), *compared, _words(row.outcome)]


def _words(outcome: gates.Outcome) -> str:
    return outcome.name.lower().replace("_", " ")
