"""``report``: the report of a stored run, or reports again from their data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from xbackend import report as reporting
from xbackend.cli import DONE, STORE, options, output
from xbackend.cli.console import progress, say, say_lines
from xbackend.cli.output import Output
from xbackend.errors import StoreError, UsageError
from xbackend.report import kinds
from xbackend.results import FOLDER
from xbackend.results.runs import Store
from xbackend.results.schema import read
from xbackend.wording import counted, placed, unfinished


def _there(context: Any) -> list[str]:
    """The names of the reports in the folder of the command line."""
    return [*kinds.there(Path(context["reports"].value or "reports"))]


_NAMES = Parameter(help="which of the reports that are there (default: all)", metavar="NAME", completer=_there)


def report(
    *names: Annotated[str, _NAMES],
    run: Annotated[str | None, options.run_of("write the report of ")] = None,
    name: options.Name = None,
    baseline: options.Baseline = None,
    store: options.Store = FOLDER,
    reports: options.Reports = Path("reports"),
    printed: options.Printed = options.PRINTED,
) -> Output:
    """Write reports, of a stored run or again from their own results, and the index over all of them."""
    files: list[Path] = []
    wrong: list[str] = []
    if run is not None:
        if names:
            raise UsageError(f"--run is a report of its own: leave out it or {' '.join(names)}")
        files.append(_of_run(Store(store), run, name, reports, baseline))
    else:
        if name is not None:
            raise UsageError("--name is what the report of a --run is called")
        files, wrong = _again(reports, names, baseline)
    say(f"index: {(index := reporting.index(reports))}")
    for line in wrong:
        say(f"xbackend report: {line}", error=True)
    return output.Report(
        exit_code=STORE if wrong else DONE,
        answer=f"{counted(len(files), 'report')} written",
        error="; ".join(wrong),
        files=[*map(str, [*files, index])],
    )


def _of_run(store: Store, run: str, name: str | None, reports: Path, baseline: str | None) -> Path:
    running = store.running(run)  # before it is read: one that ends meanwhile is complete
    results = store.load(run)
    path = reporting.write(results, reports / _folder(name or results.run or results.name), baseline)
    if not results.complete:
        say(f"This run {unfinished(running)}: the report is of its finished processes only.", error=True)
    say(f"report: {path}")
    return path


def _folder(name: str) -> str:
    """A name made safe as that of a folder of reports: a file may hold any."""
    return re.sub(r"[^\w.+-]+", "-", name).strip(".-")[:100] or "run"


def _again(folder: Path, names: Sequence[str], baseline: str | None) -> tuple[list[Path], list[str]]:
    """Write reports again; returns their paths, and the errors of those that cannot be read or written, which stop no
    others."""
    there = kinds.there(folder)
    unknown = sorted(set(names) - set(there))
    if unknown or not there:
        raise UsageError(
            f"there is no report {', '.join(unknown) or 'at all'} in {folder}; there is {', '.join(there) or 'none'}; "
            "xbackend compare, train and cluster run make one"
        )
    files, wrong = [], []
    each = [(name, kind) for name, found in there.items() if not names or name in names for kind in found]
    with progress() as shown:
        for (name, kind), place in placed(each):
            shown(f"writing {folder / name}{place}")
            try:
                told = read(folder / name / kind.file, kind.told)
                files.append(reporting.write(told, folder / name, baseline, again=True))
            except StoreError as error:
                wrong.append(str(error))
    say_lines(f"report: {file}" for file in files)
    return files, wrong
