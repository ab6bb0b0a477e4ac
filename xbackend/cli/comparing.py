"""``compare`` and ``bench``: measuring."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from xbackend import report as reports
from xbackend import workloads
from xbackend.cli import DONE, INCOMPLETE
from xbackend.cli.console import progress, say, table
from xbackend.cli.machines import ready
from xbackend.errors import StoreError, UsageError
from xbackend.measure import matrix, session
from xbackend.results import schema
from xbackend.results.runs import Store
from xbackend.results.schema import Results


def _parameters(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every combination of the sizes and dtypes that were asked for, with the other parameters."""
    given = dict(options.static)
    for name in ("size", "dtype"):
        if name in given and getattr(options, name):
            raise UsageError(f"--{name} and --set {name}={given[name]} say the same parameter: give one of them")
    sizes = [{"size": n} for n in options.size or []] or [{}]
    dtypes = [{"dtype": d} for d in options.dtype or []] or [{}]
    return [{**given, **size, **dtype} for size in sizes for dtype in dtypes]


def compare(options: argparse.Namespace) -> int:
    """Run a workload on backends, print the table, write the report."""
    workload = workloads.get(options.workload)
    runs = matrix.runs(options.backends, options.environments)
    parameters = _parameters(options)
    for combination in parameters:
        workload.resolve(**combination)  # an unknown parameter is an error before anything is measured
    matrix.check_baseline(options.baseline, runs)  # also before environments are made
    with progress() as shown:
        ready(runs, shown)
        results = session.compare(
            workload.name,
            parameters=parameters,
            backends=options.backends,
            environments=options.environments,
            devices=tuple(options.devices or (1,)),
            quick=options.quick,
            thorough=options.thorough,
            processes=options.processes,
            minutes=options.minutes,
            limit=options.limit,
            baseline=options.baseline,
            threads=options.threads,
            seed=options.seed,
            name=options.name or workload.name,
            store=Store(options.store),
            on_progress=shown,
        )
        said = _report(results, options)
    headers, rows = reports.summary_table(results, options.baseline)
    table(headers, rows)
    for warning in results.settings.warnings or ():
        say(f"warning: {warning}")
    say(f"{results.settings.stopped}; run {results.run}, {said}")
    # What was not asked for by name may be missing here; what was asked for, or gave wrong numbers, may not.
    named = options.backends or options.environments
    bad = ("missing", "failed", "wrong") if named else ("failed", "wrong")
    return INCOMPLETE if any(m.status in bad for m in results.measurements) else DONE


def _report(results: Results, options: argparse.Namespace) -> str:
    """Write the report; where it is, in words. One that has times stays where all of today's attempts gave none."""
    folder = options.reports / results.name
    if not _has_times(results) and _has_times(_present(folder)):
        return (
            f"which gave no time: the report that was in {folder} stays; xbackend report --run {results.run} writes "
            "one of this run"
        )
    return f"report: {reports.write(results, folder, options.baseline)}"


def _has_times(results: Results | None) -> bool:
    return results is not None and any(m.status == "ok" for m in results.measurements)


def _present(folder: Path) -> Results | None:
    """The results of the report that is in a folder, if they can be read."""
    try:
        return schema.load(folder / "results.json")
    except StoreError:
        return None


def bench(options: argparse.Namespace) -> int:
    """``pytest bench`` with the given options, in the project that lies here."""
    if not Path("bench").is_dir():
        raise UsageError(
            "there is no folder bench here: run this at the root of a project that has one; xbackend compare works "
            "everywhere"
        )
    # pytest-benchmark takes the next word as the value of --benchmark-compare, so the folder comes first.
    return subprocess.call([sys.executable, "-m", "pytest", "bench", *options.rest])
