"""``compare``: run a workload on backends and write a report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter
from cyclopts.validators import mutually_exclusive

from xbackend import workloads
from xbackend.cli import DONE, INCOMPLETE, INTERRUPTED, configured, graphs, options, output, users
from xbackend.cli.console import say, say_lines, width
from xbackend.cli.live import progress
from xbackend.cli.options import option
from xbackend.cli.output import Output
from xbackend.errors import StoreError, UsageError
from xbackend.measure import matrix
from xbackend.measure.plan import PRESETS, WIDTH
from xbackend.report.said import text
from xbackend.results import FOLDER, schema
from xbackend.results.naming import FILE
from xbackend.results.runs import REPORTED, Store
from xbackend.wording import join

if TYPE_CHECKING:
    from xbackend.scripting.compared import Compared

_QUICK, _USUAL, _THOROUGH = (PRESETS[name].most for name in ("quick", "default", "thorough"))
_DEFAULT = "matpow"
_SUITES = [*workloads.suites(), workloads.ALL]
_HOW = Group("", validator=mutually_exclusive)
_LONG = (
    f"{_THOROUGH.processes} processes and more, until the 95 % interval of every time is within {100 * WIDTH:g} % on "
    f"either side or {_THOROUGH.seconds / 60:g} minutes (or --minutes) are used up"
)
_QUICKLY = options.flag(
    f"at most {_QUICK.processes} fresh processes for each candidate, small and short, in {_QUICK.seconds / 60:g} min",
    group=_HOW,
)
_BACKENDS = options.backends_of("all, or those of the environments named with --env")
_BASELINE = options.backend("what the ratios are taken to (default: numpy)")
_PROCESSES = option(
    options.count,
    "N",
    f"fresh processes for each candidate (default: at most {_USUAL.processes}, and no more of one that nothing is open "
    "of); with --thorough the fewest",
)
_MINUTES = option(
    options.duration("minutes"),
    "N",
    f"begin no more processes when they would end later (default: {_USUAL.seconds / 60:g})",
)
_DEVICES = option(
    options.devices,
    "N,...",
    "how many devices to spread over, and of which kinds: 1,2 takes accelerators where a backend has some, else CPU "
    "devices; gpu,1,2 takes GPUs alone, cpu,1,2 CPU devices alone, gpu,cpu,2 the CPU where a GPU is missing (default: "
    "1)",
    lambda _: ("cpu", "gpu"),
)
_EACH = option(
    options.count, "K",
    "a device is so many cores, to which its process is pinned: does a second device of the same kind help? (default "
    "for several devices on a machine without accelerators: all cores over the largest number of devices)",
)  # fmt: skip
_SHARED = options.flag("the devices share all cores, which one device alone may fill")
_REUSE = options.flag(
    "take rows from the store that an earlier session measured, of the same program, arrays, versions, machine and "
    "options; they say so"
)
_SIZE = option(options.numbers(10**9), "N,...", "rows of its matrices")
_SET = options.sweep("a parameter of the workload, such as n=10 or method=squaring; n=1e3,1e5 measures both")
_TARGET = option(
    str, "TARGET",
    f"a workload ({', '.join(workloads.names())}), FILE.py with workloads of your own, or FILE.py:FUNCTION, "
    f"with --from also a folder, of whose files each has a {graphs.MODEL} (or FOLDER:NAME) (default: {_DEFAULT})",
    lambda _: workloads.names(),
)  # fmt: skip
_SUITE = option(str, "SUITE", f"all workloads of a suite: {', '.join(_SUITES)}", lambda _: _SUITES)
_DTYPE = option(options.names, "NAME,...", "float32, float64")


@Parameter(name="*")
@dataclass(frozen=True)
class Measuring:
    """What is measured and how much of it: arguments of `session.compare`."""

    backends: Annotated[list[str] | None, _BACKENDS] = None
    environments: options.Environments = ()
    quick: Annotated[bool, _QUICKLY] = False
    thorough: Annotated[bool, options.flag(_LONG, group=_HOW)] = False
    processes: Annotated[int | None, _PROCESSES] = None
    minutes: Annotated[float | None, _MINUTES] = None
    limit: options.Limit = 600.0
    wait: options.Wait = None
    devices: Annotated[Sequence[int | str], _DEVICES] = (1,)
    devices_map: options.DevicesMap = None
    threads: options.Threads = None
    cores_per_device: Annotated[int | None, _EACH] = None
    shared_cores: Annotated[bool, _SHARED] = False
    seed: options.Seed = 0
    baseline: Annotated[str | None, _BASELINE] = None
    allow_nan: options.AllowNaN = False


_USUALLY = Measuring()


def compare(
    target: Annotated[str | None, _TARGET] = None,
    /,
    *,
    suite: Annotated[str | None, _SUITE] = None,
    inputs: options.Inputs = None,
    graph: graphs.GraphChoice = graphs.NONE,
    measuring: Measuring = _USUALLY,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    size: Annotated[list[int] | None, _SIZE] = None,
    dtype: Annotated[list[str] | None, _DTYPE] = None,
    settings: Annotated[options.Lists, _SET] = None,
    name: options.Name = None,
    reports: options.Reports = Path("reports"),
    store: options.Store = FOLDER,
    reuse: Annotated[bool, _REUSE] = False,
    wide: options.Wide = False,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """Run a workload on backends, print the answer and the table, write the report."""
    from xbackend.scripting import comparing  # slow imports would keep a shell waiting that completes an option

    runs = matrix.runs(measuring.backends, measuring.environments)
    matrix.check_baseline(measuring.baseline, runs)  # before environments are made, like all refusals
    for given, what in ((target, target), (inputs, "--input")):
        if given and suite is not None:
            raise UsageError(f"--suite {suite} and {what} say two things that are to be measured: give one of them")
    if name is None:
        name = _called(graph.named(target or _DEFAULT), suite)
        place = "" if suite is not None else graph.place(target or _DEFAULT)
        if place.endswith(".py") and not Path(place).is_file():
            raise users.missing(Path(place))  # before anything is said of the report with that name
        _check_file(reports / name, place)
    options.check_places(reports / name, None)
    before = _before(reports / name)
    with progress() as (shown, watch):
        cases = users.cases(
            target or _DEFAULT, inputs, _asked(dict(settings or ()), size=size, dtype=dtype),
            suite=suite, quick=measuring.quick, seed=measuring.seed, graph=graph, on_progress=shown,
        )  # fmt: skip
        found = comparing.measured(
            cases,
            name=name,
            store=Store(store),
            on_progress=shown,
            watch=watch,
            partial=True,
            configured=configured.taken,
            reuse=reuse,
            **vars(measuring),
        )
        written = found.write(folder := reports / found.results.name)
    say_lines(found.lines(width(), wide))
    # Backends that were not named may be missing here; named ones may not, and no numbers may be wrong.
    well = ("ok",) if measuring.backends or measuring.environments else ("ok", "missing")
    return _told(found, folder, written, before, all(m.status in well for m in found.results.measurements))


def _told(found: Compared, folder: Path, written: Path | None, before: str, well: bool) -> Output:
    """Print how the session ended and where its report is."""
    results = found.results
    say(f"{results.settings.stopped}; run {results.run}")
    stays = f"it gave no time: the report that was in {folder} stays"
    say(
        f"report: {written}{before}"
        if written
        else f"{stays}; xbackend report --run {results.run} writes one of this run"
    )
    told = partial(
        output.compared, results, found.figures, answer=found.answer, files=[str(written)] if written else []
    )
    if results.complete:
        return told(exit_code=DONE if well else INCOMPLETE)
    why = "interrupted; the report is of what was measured before"
    say(f"xbackend compare: {why}", error=True)
    return told(exit_code=INTERRUPTED, error=why)


def _asked(settings: dict[str, list[Any]], **short: list[Any] | None) -> dict[str, list[Any]]:
    """The values of each parameter that were asked for, by ``--set`` or by its short form."""
    given = {name: values for name, values in short.items() if values}
    for name in given:
        if name in settings:
            values = ",".join(map(str, settings[name]))
            raise UsageError(f"--{name} and --set {name}={values} say the same parameter: give one of them")
    return {**given, **settings}


def _check_file(folder: Path, place: str) -> None:
    """Raises `UsageError` where the report in a folder is of another file, or of files elsewhere: it would be lost."""
    with suppress(StoreError):  # there is none, or one that cannot be read
        of = {str(row.parameters.get(FILE, "")) for row in schema.load(folder / REPORTED).measurements}
        if of and not any(one == place or (place and Path(one).parent == Path(place)) for one in of):
            words = join(one or "a workload of xbackend" for one in sorted(of))
            raise UsageError(
                f"the report in {folder} is of {words}: give this one another name with --name, or remove that folder"
            )


def _before(folder: Path) -> str:
    """The words about the report in a folder, which the new one replaces; empty without one."""
    with suppress(StoreError):
        earlier = schema.load(folder / REPORTED)
        back = f"; xbackend report --run {earlier.run} writes that one again" if earlier.run else ""
        return f" (replaces the one of {text.moment(earlier.created)}{back})"
    return ""


def _called(target: str, suite: str | None) -> str:
    """The name of a report: that of the suite, the workload, the function, or the file. Raises `UsageError`."""
    if suite is not None:
        return "suite" if suite == workloads.ALL else suite
    file, _, function = target.rpartition(":")
    try:
        return options.report_name(function if file else re.sub(r"[^\w.+ -]", "_", Path(target).stem))
    except ValueError as error:
        raise UsageError(f"{target}: {error}; give the report one with --name") from None
