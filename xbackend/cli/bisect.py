"""``bisect``: the release of a framework in which something changed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from xbackend import environments, workloads
from xbackend.analysis.bisection import What
from xbackend.analysis.gate import GateOutcome
from xbackend.analysis.statistics import Verdict
from xbackend.backends import registry
from xbackend.cli import DONE, INCOMPLETE, graphs, options, output, users
from xbackend.cli.console import progress, say, table
from xbackend.cli.output import Output
from xbackend.environments.releases import EXAMPLE, releases
from xbackend.errors import UsageError
from xbackend.measure.bisect import Beside, Bisection, Found
from xbackend.report.said import text
from xbackend.results import FOLDER
from xbackend.results.runs import Store
from xbackend.wording import counted, join

_RELEASES = Parameter(
    metavar="RELEASES", help=f"which releases of a framework, such as {EXAMPLE}; pre-releases are left out",
    completer=lambda _: environments.names(),
)  # fmt: skip
_TARGET = Parameter(
    metavar="TARGET", help=f"what is measured: FILE.py:FUNCTION, or a workload ({', '.join(workloads.names())})",
    completer=lambda _: workloads.names(),
)  # fmt: skip
_WHAT = "what may have changed: the time of a call, that of compilation, or the numbers that are returned"
_BACKEND = options.backend("which backend of the framework (default: its first in the list of xbackend devices)")
_PROCESSES = options.option(
    options.count, "N", "fresh processes of each release in a session, twice as many of the first and last (default: 5)"
)
_DEVICES = options.option(options.device_count, "[KIND,]N", "how many devices to spread over, and of which kind: gpu,2")
_QUICKLY = options.flag("3 fresh processes of each release in a session, small and short")
_TOLERANCE = options.tolerance(
    "with --what numbers: the largest relative difference that is none (default: what docs/workloads.md says)"
)
_SET = options.setting("a parameter of the workload, or a keyword argument that the function is traced with")
_SHOWN = {
    (What.TIME, Verdict.SLOWER): "is slower",
    (What.TIME, Verdict.FASTER): "is faster",
    (What.COMPILE, Verdict.SLOWER): "is compiled more slowly",
    (What.COMPILE, Verdict.FASTER): "is compiled faster",
}
_OF = {What.TIME: "time", What.COMPILE: "compile time"}
_FEW = 4  # releases that are named one by one
RANGE = 15  # the exit code where one of several releases may be the first changed one


def bisect(
    wanted: Annotated[str, _RELEASES],
    target: Annotated[str, _TARGET],
    /,
    *,
    what: Annotated[Literal["time", "compile", "numbers"], Parameter(help=_WHAT)] = "time",
    backend: Annotated[str | None, _BACKEND] = None,
    inputs: options.Inputs = None,
    graph: graphs.GraphChoice = graphs.NONE,
    settings: Annotated[options.Assignments, _SET] = None,
    tolerance: Annotated[float | None, _TOLERANCE] = None,
    allow_nan: options.AllowNaN = False,
    quick: Annotated[bool, _QUICKLY] = False,
    processes: Annotated[int | None, _PROCESSES] = None,
    devices: Annotated[list[int | str] | None, _DEVICES] = None,
    devices_map: options.DevicesMap = None,
    threads: options.Threads = None,
    seed: options.Seed = 0,
    limit: options.Limit = 600.0,
    wait: options.Wait = None,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    store: options.Store = FOLDER,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """Name the release in which something changed, or a range of releases, and show what was measured."""
    if tolerance is not None and what != "numbers":
        raise UsageError(f"--tolerance is for --what numbers: a {_OF[What(what)]} has a verdict")
    case = users.case(target, inputs, settings, quick=quick, seed=seed, graph=graph)
    if devices_map:
        case = case.bound(devices_map)
    with progress() as shown:
        shown(f"asking the package index for {wanted}")
        there = releases(wanted)
        name = _backend(wanted, there, backend)
        given: dict[str, Any] = {
            "quick": quick, "processes": processes, "threads": threads, "seed": seed, "limit": limit, "wait": wait,
            "allow_nan": allow_nan, "store": Store(store), "on_progress": shown,
        }  # fmt: skip
        looked = Bisection(case, name, there, What(what), devices or [1], tolerance, given)
        found = looked.run()
    say(first := answer(found, what=looked.what, subject=f"{case.workload} on {name}"))
    _show(found, looked.what)
    return output.Bisect(
        exit_code=_code(found),
        answer=first,
        first_changed="" if found.between else found.high,
        among=[*found.between, found.high] if found.between else [],
        rows=[output.release(one, found, looked.what is What.NUMBERS) for one in found.releases],
    )


def _code(found: Found) -> int:
    if not found.first:
        return INCOMPLETE
    return int(GateOutcome.NO_VERDICT) if not found.high else RANGE if found.between else DONE


def _backend(wanted: str, there: list[str], asked: str | None) -> str:
    """The backend that runs in these environments. Raises `UsageError`."""
    if len(there) < 2:
        raise UsageError(f"{wanted!r}: the package index has {join(there) or 'none'}; two releases are needed")
    framework = environments.get(there[0]).framework
    own = [entry.name for entry in registry.entries() if entry.environment == framework]
    if asked is not None and registry.get(asked).environment != framework:
        raise UsageError(f"--backend {asked}: it does not run on {framework}; there is {', '.join(own)}")
    return asked or own[0]


def answer(found: Found, what: What, subject: str) -> str:
    """The first line."""
    if not found.first:
        return f"no two of {counted(len(found.releases), 'release')} work: the table says why"
    first, last, high = map(_words, (found.first, found.last, found.high))
    if not found.high:
        ends = found.beside[found.last]
        return f"{ends.doubts}{subject} is not told apart in {first} and {last}: {_compared(ends, what)}"
    step, verdict = found.step or found.beside[found.last], found.beside[found.last].ratio
    does = "returns other numbers" if verdict is None else _SHOWN[what, verdict.verdict]
    said = f"{high} is the first release in which {subject} {does}"
    if found.between:
        framework, them = high.partition(" ")[0], [_number(name) for name in [*found.between, found.high]]
        which = join(them) if len(them) <= _FEW else f"the {len(them)} from {them[0]} to {them[-1]}"
        said = f"the first release of {framework} in which {subject} {does} is one of {which}"
    return f"{step.doubts}{said}: {_compared(step, what, _number(found.low))}"


def _compared(beside: Beside, what: What, than: str = "the former") -> str:
    """As in 1.42 times the time of 2.31.1 (1.35 to 1.49)."""
    if beside.ratio is None:
        return f"they differ by a relative {text.power(beside.difference)}, {text.power(beside.passes)} passes"
    times = f"{text.number(beside.ratio.value)} times the {_OF[what]} of {than}"
    between = f"{text.number(beside.ratio.low)} to {text.number(beside.ratio.high)}"
    said = f"{times} ({between})" + ("" if beside.differs else f", {text.verdict(beside.ratio)}")
    if beside.from_cache is None:
        return said
    return f"{said}; from the cache on disk {text.ratio(beside.from_cache)} times, {text.verdict(beside.from_cache)}"


def _show(found: Found, what: What) -> None:
    """A row for each release that was looked at."""
    rows = []
    for name in found.releases:
        is_first, why = name == found.first, found.reasons.get(name, "")
        beside = None if is_first else found.beside.get(name)
        cells = [text.NOTHING, text.NOTHING, "the first" if is_first else "left out"]
        if beside is not None and beside.ratio is not None and beside.seconds is not None:
            cells = [" / ".join(map(text.time, beside.seconds)), text.ratio(beside.ratio), text.verdict(beside.ratio)]
        elif beside is not None:
            cells = [text.NOTHING, text.power(beside.difference), "differs" if beside.differs else "agrees"]
        if is_first or beside is not None or why:
            rows.append([name, *cells, why])
    first = _number(found.first) if found.first else "the first"
    against = "relative difference" if what is What.NUMBERS else "ratio (95 % interval)"
    table(
        ["release", f"{_OF.get(what, 'time')} / of {first} beside it", f"{against} to {first}", "verdict", "why"], rows
    )
    say(f"{counted(len(rows), 'release')} of {len(found.releases)} were looked at")


def _words(name: str) -> str:
    """As in pytensor 2.31.2."""
    return name.replace("==", " ")


def _number(name: str) -> str:
    return name.partition("==")[2]
