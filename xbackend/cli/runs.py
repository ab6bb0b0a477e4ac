"""``runs``: what the store holds."""

from __future__ import annotations

from typing import Annotated

from xbackend.cli import DONE, options
from xbackend.cli.console import say, say_lines, table, width
from xbackend.errors import StoreError
from xbackend.report.written.terminal import lines
from xbackend.results import FOLDER
from xbackend.results.runs import Store
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
    listed = _lines(Store(store))
    if listed:
        table(["run", "workload or name", "measured", "gave a time", "rounds", "state"], listed)
    else:
        say(f"there is no run in {store}; xbackend compare makes one")
    return DONE


def _lines(store: Store) -> list[list[str]]:
    found = []
    for name, run in store.runs():
        if isinstance(run, StoreError):
            found.append([plain(name), "", "", "", "", f"damaged: {plain(run)}"])
            continue
        state = "complete" if run.complete else "being measured" if store.held(name) else "cut off"
        gave = f"{sum(m.status == 'ok' for m in run.measurements)} of {len(run.measurements)}"
        rounds = sum(len(p.rounds) for m in run.measurements for p in m.processes)
        found.append([*map(plain, (name, run.name, run.created)), gave, str(rounds), state])
    return found


def _show(store: Store, name: str, wide: bool) -> int:
    running = store.running(name)  # before it is read: one that ends meanwhile is complete
    results = store.load(name)
    say_lines(lines(results, None, width(), wide))
    say(f"run {results.run or results.name}, {results.created}")
    if not results.complete:
        say(f"This run {unfinished(running)}: it has its finished processes only.")
    return DONE
