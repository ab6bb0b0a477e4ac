"""``runs``: what the store holds."""

from __future__ import annotations

from typing import Annotated

from xbackend import report
from xbackend.cli import DONE, options
from xbackend.cli.console import say, table, width
from xbackend.results import FOLDER
from xbackend.results.runs import RunInfo, Store
from xbackend.wording import plain, unfinished


def runs(
    run: Annotated[str | None, options.run_of()] = None,
    /,
    *,
    store: options.Store = FOLDER,
    wide: options.Wide = False,
) -> int:
    """List the runs of the store, or show one."""
    if run is not None:
        return _show(Store(store), run, wide)
    listed, former = Store(store).runs(), Store(store).former()
    if listed:
        headers = ["run", "workload or name", "measured", "gave a time", "rounds", "state"]
        table(headers, [_line(each) for each in listed])
    else:
        say(f"there is no run in {store}; xbackend compare makes one")
    if former:
        say(plain(former))
    return DONE


def _line(run: RunInfo) -> list[str]:
    if run.damaged:
        return [plain(run.name), "", "", "", "", f"damaged: {plain(run.damaged)}"]
    state = "complete" if run.complete else "being measured" if run.running else "cut off"
    gave = f"{run.measurements} of {run.of}"
    return [*map(plain, (run.name, run.title, run.created)), gave, str(run.rounds), state]


def _show(store: Store, name: str, wide: bool) -> int:
    running = store.running(name)  # before it is read: one that ends meanwhile is complete
    results = store.load(name)
    for line in report.terminal_lines(results, None, width(), wide):
        say(line)
    say(f"run {results.run or results.name}, {results.created}")
    if not results.complete:
        say(f"This run {unfinished(running)}: it has its finished processes only.")
    return DONE
