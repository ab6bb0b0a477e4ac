"""``gate``: whether a run is slower than another one."""

from __future__ import annotations

from typing import Annotated

from xbackend.analysis import gate as gates
from xbackend.analysis.gate import Limit, Row
from xbackend.cli import options
from xbackend.cli.console import say, table
from xbackend.errors import UsageError
from xbackend.report import text
from xbackend.results import FOLDER
from xbackend.results.runs import Store
from xbackend.wording import plain

DEFAULT = "slower:5%"
_FAIL = (
    f"{DEFAULT} (the default): more than 1.05 times the time of BASE and slower by the verdict; faster:5%: less than "
    "1/1.05 of it and faster; may be given several times"
)


def gate(
    base: options.Run,
    head: options.Run,
    /,
    *,
    fail: Annotated[list[str] | None, options.repeated("--fail", "LIMIT", _FAIL)] = None,
    store: options.Store = FOLDER,
) -> int:
    """Judge a run by another one; the exit code is a `gates.Outcome`."""
    limits = [Limit.parse(one) for one in fail or [DEFAULT]]
    kept = Store(store)
    # Before they are read: one that ends meanwhile is complete.
    running = [side for side, name in (("BASE", base), ("HEAD", head)) if kept.running(name)]
    before, after = kept.load(base), kept.load(head)
    if before.run and before.run == after.run:
        raise UsageError(f"BASE and HEAD are both the run {before.run}: a run is not judged by itself")
    runs, damaged = kept.readable()
    judged = gates.judge(before, after, limits, running, runs)
    if judged.rows:
        headers = ["measurement", "BASE", "HEAD", "ratio (interval)", "verdict", "could be found", "gate"]
        table(headers, [_line(row) for row in judged.rows])
    for name, reason in damaged:
        say(f"left out of what is known of sessions: run {plain(name)} is damaged: {plain(reason)}")
    for note in [*(f"{row.label}: {row.reason}" for row in judged.rows if row.reason), *judged.notes]:
        say(plain(note))
    say(f"gate {', '.join(map(str, limits))}: {_words(judged.outcome)}: {plain(judged.reason)}")
    return int(judged.outcome)


def _line(row: Row) -> list[str]:
    compared = [text.NOTHING] * 3
    if row.ratio is not None:
        compared = [text.ratio(row.ratio), str(row.ratio.verdict), text.percent(row.ratio.smallest)]
    return [plain(row.label), text.time(row.base), text.time(row.head), *compared, _words(row.outcome)]


def _words(outcome: gates.Outcome) -> str:
    return outcome.name.lower().replace("_", " ")
