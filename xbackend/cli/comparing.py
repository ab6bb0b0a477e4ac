"""``compare``, ``report``, ``bench``: measuring and what was measured."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from xbackend import report as reports
from xbackend import workloads
from xbackend.cli import DONE, INCOMPLETE
from xbackend.cli.console import progress, table
from xbackend.cli.machines import chosen, ready
from xbackend.errors import UsageError
from xbackend.measure import results as store
from xbackend.measure import session


def _parameters(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every combination of the sizes and dtypes that were asked for, with the other parameters."""
    given = dict(options.static)
    sizes = [{"size": n} for n in options.size or []] or [{}]
    dtypes = [{"dtype": d} for d in options.dtype or []] or [{}]
    return [{**given, **size, **dtype} for size in sizes for dtype in dtypes]


def compare(options: argparse.Namespace) -> int:
    """Run a workload on backends, print the table, write the report."""
    workload = workloads.get(options.workload)
    names = chosen(options.backends)
    parameters = _parameters(options)
    for combination in parameters:
        workload.resolve(**combination)  # an unknown parameter is an error before anything is measured
    if options.baseline is not None:
        chosen([options.baseline])
    with progress() as say:
        ready(names, say)
        results = session.compare(
            workload.name,
            parameters=parameters,
            backends=names,
            devices=tuple(options.devices or (1,)),
            processes=options.processes,
            quick=options.quick,
            threads=options.threads,
            seed=options.seed,
            figures=options.figures,
            name=options.name or workload.name,
            on_progress=say,
        )
        path = reports.write(results, options.reports / results.name, options.baseline)
    headers, rows = reports.summary_table(results, options.baseline)
    table(headers, rows)
    print(f"report: {path}")
    # What was not asked for by name may be missing here; what was asked for, or gave wrong numbers, may not.
    bad = ("missing", "failed", "wrong") if options.backends else ("failed", "wrong")
    return INCOMPLETE if any(m.status in bad for m in results.measurements) else DONE


def report(options: argparse.Namespace) -> int:
    """Write reports again from their stored results, and the index over all of them."""
    folder: Path = options.reports
    found = sorted(p.parent for p in folder.glob("*/results.json"))
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
            print(f"report: {reports.write(store.load(path / 'results.json'), path, options.baseline)}")
    print(f"index: {reports.index(folder)}")
    return DONE


def bench(options: argparse.Namespace) -> int:
    """``pytest bench`` with the given options, from the project's root."""
    if not Path("bench/conftest.py").is_file():
        raise UsageError(
            "there is no folder bench here: the benchmarks are part of the project's source, run this at its root; "
            "xbackend compare works everywhere"
        )
    # pytest-benchmark takes the next word as the value of --benchmark-compare, so the folder comes first.
    return subprocess.call([sys.executable, "-m", "pytest", "bench", *options.rest])
