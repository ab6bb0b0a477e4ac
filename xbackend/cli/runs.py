"""``runs``: the runs of the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from xbackend.cli import DONE, options, output
from xbackend.cli.console import say, say_lines, table, width
from xbackend.cli.output import Output, Stored
from xbackend.errors import StoreError
from xbackend.report.written.terminal import lines
from xbackend.results import FOLDER
from xbackend.results.runs import Store
from xbackend.wording import counted, plain, unfinished


def runs(
    run: Annotated[str | None, options.run_of()] = None,
    /,
    *,
    store: options.Store = FOLDER,
    wide: options.Wide = False,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """List the runs of the store, or show one."""
    if run is not None:
        return _show(Store(store), run, wide)
    listed = [*_stored(Store(store))]
    answer = f"{counted(len(listed), 'run')} in {store}"
    if listed:
        table(["run", "workload or name", "measured", "gave a time", "rounds", "state"], [*map(_cells, listed)])
    else:
        say(answer := f"there is no run in {store}; xbackend compare makes one")
    return output.Runs(exit_code=DONE, answer=answer, rows=listed)


def _stored(store: Store) -> Iterator[Stored]:
    for name, run in store.runs():
        if isinstance(run, StoreError):
            yield Stored(run=name, state="damaged", reason=str(run))
            continue
        yield Stored(
            run=name,
            state="complete" if run.complete else "being measured" if store.held(name) else "cut off",
            name=run.name,
            created=run.created,
            measurements=len(run.measurements),
            with_time=sum(m.status == "ok" for m in run.measurements),
            rounds=sum(len(p.rounds) for m in run.measurements for p in m.processes),
        )


def _cells(one: Stored) -> list[str]:
    if one.reason:
        return [plain(one.run), "", "", "", "", f"damaged: {plain(one.reason)}"]
    gave = f"{one.with_time} of {one.measurements}"
    return [*map(plain, (one.run, one.name, one.created)), gave, str(one.rounds), one.state]


def _show(store: Store, name: str, wide: bool) -> Output:
    from xbackend.scripting.compared import Compared

    running = store.running(name)  # before it is read: one that ends meanwhile is complete
    found = Compared(results := store.load(name))
    say_lines(lines(results, None, width(), wide))
    say(f"run {results.run or results.name}, {results.created}")
    if not results.complete:
        say(f"This run {unfinished(running)}: it has its finished processes only.")
    of = output.compared(results, found.figures, exit_code=DONE, answer=found.answer)
    return output.Runs(exit_code=DONE, answer=found.answer, run=of)
