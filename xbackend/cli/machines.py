"""``devices``, ``doctor``, ``env``: what is here."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence

import numpy as np

import xbackend as xb
from xbackend import environments
from xbackend.backends import registry, system
from xbackend.cli import DONE, INCOMPLETE, installing
from xbackend.cli.console import Progress, progress, table
from xbackend.environments import recipes
from xbackend.errors import UsageError, XBackendError
from xbackend.measure.matrix import Run


def chosen(names: Sequence[str] | None) -> list[str]:
    """The backends that were asked for, all if none were. Raises `UnknownBackend`."""
    return [registry.get(name).name for name in names] if names is not None else list(registry.names())


def ready(runs: Sequence[str | Run], say: Progress) -> dict[str, str]:
    """Make the environments that the backends need; the reasons of those that could not be made, by environment.

    A run is a backend, or one with an environment: see `xbackend.measure.matrix`.
    """
    failures = {}
    pairs = [(run, "") if isinstance(run, str) else run for run in runs]
    for environment in dict.fromkeys(named or registry.get(name).environment for name, named in pairs):
        try:
            environments.sync(environment, on_progress=say)
        except XBackendError as error:
            failures[environment] = str(error)
    return failures


def _each(names: Sequence[str], look: Callable[[str], list[str]], say: Progress) -> tuple[list[list[str]], bool]:
    """One row for each backend from ``look``, or its error; and whether all looked well."""
    rows, well = [], True
    for name in names:
        say(f"starting {name}")
        try:
            rows.append([name, *look(name)])
        except XBackendError as error:
            rows.append([name, "-", str(error).split("\n")[0]])
            well = False
    return rows, well


def devices(options: argparse.Namespace) -> int:
    """The devices of each backend, its default first to be read."""
    names = chosen(options.backends)

    def look(name: str) -> list[str]:
        with xb.open(name, virtual_devices=options.virtual_devices, isolated=True) as backend:
            return [", ".join(map(str, backend.devices)), f"default {backend.default_device}"]

    with progress() as say:
        ready(names, say)
        rows, well = _each(names, look, say)
    table(["backend", "devices", ""], rows)
    return DONE if well else INCOMPLETE


def _diagnose(name: str) -> list[str]:
    """State, versions or reason, and what to type."""
    entry = registry.get(name)
    environment = environments.get(entry.environment)
    recipe = recipes.recipe(entry.environment)
    again = recipe.command
    lacking = installing.missing_of(name)
    absent = [f"packages of the system: {', '.join(lacking)}"] if lacking else []
    install = [system.remedy(lacking)] if lacking else []
    if environment.state != "ready":
        absent.append(f"environment {environment.name} is {environment.state}: {environment.reason}")
        return ["missing", "; ".join(absent), " && ".join([*install, again])]
    matrix = np.array([[1, 1], [0, 1]], np.float32)
    try:
        with xb.open(name, isolated=True) as backend:
            versions = backend.describe().versions
            squared = backend.compile(lambda x: x @ x, matrix)(matrix)
    except XBackendError as error:
        if lacking:  # what they are looked for by is Debian's, so only a failure shows that they are missed
            return ["missing", "; ".join([*absent, str(error).split("\n")[0]]), install[0]]
        damage = environment.damage()
        reason = "; ".join([str(error).split("\n")[0], *map(str, damage[:1])])
        return ["broken", reason, again if damage else "see why, then xbackend doctor again"]
    if squared.tolist() != (matrix @ matrix).tolist():
        return ["broken", f"a 2x2 product gave {squared.tolist()}", f"xbackend env remove {environment.name}; {again}"]
    found = ", ".join(f"{package} {version}" for package, version in versions.items())
    newer = f"; {recipe.shortfall}" if recipe.shortfall else ""
    return ["available", f"{found}{newer}", f"xbackend compare --quick --backends {shlex.quote(name)}"]


def doctor(options: argparse.Namespace) -> int:
    """For each backend: available, missing or broken, why, and what to type; or install what is missing."""
    names = chosen(options.backends)
    if options.install:
        return installing.install(names, for_tests=options.tests)
    if options.tests:
        raise UsageError("--tests says what to --install: type both")
    with progress() as say:
        damage = _verified(names, say) if options.verify else {}
        rows = []
        for name in names:
            say(f"looking at {name}")
            found = damage.get(registry.get(name).environment)
            rows.append([name, *(found or _diagnose(name))])
    table(["backend", "state", "versions, or why not", "what to type"], rows)
    return DONE if all(row[1] == "available" for row in rows) else INCOMPLETE


def _verified(names: Sequence[str], say: Progress) -> dict[str, list[str]]:
    """What `_diagnose` would give, of the environments with files that are not as they were installed."""
    found = {}
    for name in dict.fromkeys(registry.get(backend).environment for backend in names):
        say(f"reading environment {name}")
        environment = environments.get(name)
        problems = environments.problems(name, say) if environment.state == "ready" else []
        if problems:
            others = f" and {len(problems) - 1} more" if problems[1:] else ""
            why = f"environment {name} is damaged: {problems[0]}{others}"
            found[name] = ["damaged", why, recipes.recipe(name).command]
    return found


def env(options: argparse.Namespace) -> int:
    """List, make or remove environments."""
    if options.action == "remove" and not options.names:
        raise UsageError(f"name the environments to remove; there is {', '.join(environments.names())}")
    # An unknown name is an error before anything is done.
    asked = list(dict.fromkeys(environments.get(name).name for name in options.names))
    if options.action != "list":
        with progress() as say:
            for name in asked or environments.names():
                if options.action == "sync":
                    environments.sync(name, on_progress=say, hashes=True)
                else:
                    environments.remove(name, on_progress=say)
    found = [e for e in environments.list() if not asked or e.name in asked]
    found += [environments.get(name) for name in asked if name not in {e.name for e in found}]
    rows = [[e.name, e.state, str(e.path), e.reason] for e in found]
    table(["environment", "state", "path", "why, and what to type"], rows)
    return DONE
