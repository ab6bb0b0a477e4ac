"""``doctor``: which backends work here, which do not, why, and what to type; or install what is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Annotated

from xbackend import environments
from xbackend.backends import registry, system
from xbackend.cli import DONE, INCOMPLETE, gpu_check, options, output
from xbackend.cli.console import progress, say, say_lines, table, width
from xbackend.cli.output import Output
from xbackend.environments import recipes, system_packages
from xbackend.errors import UsageError, XBackendError
from xbackend.measure import gpus, matrix
from xbackend.report.written import columns
from xbackend.wording import counted, grouped, join, placed
from xbackend.workers.diagnosis import diagnose, verified

_INSTALL = "install what is missing of the system (with apt-get, as root or by sudo), and make the environments"
_TESTS = "with --install: what xbackend's own tests need too"
_GPU = "what is there for programs on GPUs, what is missing, and what to type"
_VERIFY = "read every file of the environments and compare it with what was installed"


def doctor(
    *,
    backends: options.Backends = None,
    python: options.Python = None,
    accelerator: options.Accelerator = None,
    install: Annotated[bool, options.flag(_INSTALL)] = False,
    tests: Annotated[bool, options.flag(_TESTS)] = False,
    verify: Annotated[bool, options.flag(_VERIFY)] = False,
    gpu: Annotated[bool, options.flag(_GPU)] = False,
    checking: gpu_check.Checking = gpu_check.USUALLY,
    printed: options.Printed = options.PRINTED,
) -> Output:
    """For each backend: available, missing or broken, why, and what to type; or install what is missing."""
    checking.check()
    names = [name for name, _ in matrix.runs(backends)]
    if checking.gpu_check:
        every = names if backends else gpu_check.default()
        return gpu_check.run(every, checking, lambda: _gpus(checking.environments))
    if gpu:
        return _gpus()
    if install:
        return installed(names, tests, whole=not backends)
    if tests:
        raise UsageError("--tests says what to --install: type both")
    with progress() as shown:
        damage = verified(names, shown) if verify else {}
        rows = []
        for name, place in placed(names):
            shown(f"looking at {name}{place}")
            rows.append((name, *(damage.get(registry.get(name).environment) or diagnose(name))))
    _say(rows)
    there = [name for name, state, _, _ in rows if state == "available"]
    return output.Doctor(
        exit_code=DONE if len(there) == len(rows) else INCOMPLETE,
        answer=f"{len(there)} of {counted(len(rows), 'backend')} available: {', '.join(there) or 'none'}",
        rows=[output.Diagnosed(backend=b, state=s, versions_or_reason=why, remedy=r) for b, s, why, r in rows],
    )


def _gpus(named: Iterable[str] = ()) -> Output:
    found = gpus.look(named)
    table(["what", "found"], [[one.what, one.found] for one in found])
    for one in found:
        if one.remedy:
            say(f"for {one.what}: {one.remedy}")
    missing = [one.what for one in found if one.remedy]
    answer = f"to be mended for programs on GPUs: {', '.join(missing)}" if missing else "programs can run on GPUs"
    notes = [f"{one.what}: {one.found}" + (f" ({one.remedy})" if one.remedy else "") for one in found]
    return output.Doctor(exit_code=INCOMPLETE if missing else DONE, answer=answer, notes=notes)


def _say(rows: Sequence[tuple[str, str, str, str]]) -> None:
    """Print backends with the same state in one row, and each command once."""
    same = grouped(((state, why), name) for name, state, why, _ in rows)
    remedies = grouped((remedy, name) for name, _, why, remedy in rows if remedy not in why)  # as the empty one is
    cells = [[", ".join(names), state, why] for (state, why), names in same.items()]
    wide = width() or columns.WIDTH
    say_lines(columns.lines(["backend", "state", "versions, or why not"], [("", cells)], wide))
    for remedy, names in remedies.items():
        say_lines(columns.wrapped(f"for {join(names)}: {remedy}", wide, "  "))
    if there := [name for name, state, _, _ in rows if state == "available"]:
        say(f"to measure: xbackend compare --quick --backends {shlex.quote(','.join(there))}")


def installed(backends: Sequence[str], for_tests: bool, whole: bool = False) -> Output:
    """Install the system's packages that the backends, or xbackend's own tests, need, and make the environments.
    ``whole``: these are all backends, so that tests need the environments without one, too.

    Needs without a known package on this system are only shown: the exit code is about attempts that failed.
    """
    wanted = {name: system_packages.missing(name) for name in backends}
    if for_tests:
        wanted |= {f"the tests of {what}": system.missing(packages) for what, packages in system.TESTS.items()}
    lacking = list(dict.fromkeys(package for missing in wanted.values() for package in missing))
    failure = ""
    if lacking:
        rows = [
            [
                package,
                system_packages.gives(package),
                ", ".join(who for who, missing in wanted.items() if package in missing),
            ]
            for package in lacking
        ]
        table(["missing of the system", "what it is", "who needs it"], rows)
        failure = system_packages.install(lacking, say)
    else:
        say("nothing is missing of the system")
    of_backends = [registry.get(name).environment for name in backends]
    rows = _environments(registry.ENVIRONMENTS if for_tests and whole else dict.fromkeys(of_backends))
    made = all(state != "failed" for _, state, _ in rows)
    if failure:
        say(failure)
    code = DONE if made and (not failure or not system.is_known()) else INCOMPLETE
    rooms = [
        output.Room(environment=name, state=state, reason=why if state == "failed" else "") for name, state, why in rows
    ]
    said = f"{sum(room.state == 'ready' for room in rooms)} of {counted(len(rooms), 'environment')} ready"
    return output.Doctor(exit_code=code, answer=said, error=failure, environments=rooms)


def _environments(names: Iterable[str]) -> list[list[str]]:
    """Make these environments; returns each with its state, and its Python or why it failed."""
    rows = []
    with progress() as shown:
        for name, place in placed(names):
            shown(f"environment {name}{place}")
            try:
                environments.sync(name, on_progress=shown, hashes=True)
                rows.append([name, environments.get(name).state, _python(name)])
            except XBackendError as error:
                rows.append([name, "failed", str(error)])
    table(["environment", "state", "Python, or why not"], rows)
    return rows


def _python(name: str) -> str:
    """The Python of an environment, and the newer one that it could have."""
    recipe = recipes.recipe(name)
    return f"{recipe.python_version}; {recipe.shortfall}" if recipe.shortfall else recipe.python_version
