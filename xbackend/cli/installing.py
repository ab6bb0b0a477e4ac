"""``doctor --install``: what is missing of the system, and the environments."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from xbackend import environments
from xbackend.backends import registry, system
from xbackend.backends.system import SystemPackage
from xbackend.cli import DONE, INCOMPLETE
from xbackend.cli.console import progress, say, table
from xbackend.environments import recipes
from xbackend.errors import XBackendError

_TESTS = "the tests of reports' pages"


def missing_of(name: str) -> tuple[str, ...]:
    """The packages of the system that a backend needs and that are not there."""
    entry = registry.get(name)
    python = recipes.recipe(entry.environment).python
    return system.missing(entry.system, str(python), python.include)


def install(backends: Sequence[str], for_tests: bool) -> int:
    """Install what the backends, or xbackend's own tests, need of the system, and make the environments.

    What this system has no known packages of is shown and left: the exit code tells of what was tried and failed.
    """
    wanted = {name: missing_of(name) for name in backends}
    if for_tests:
        wanted[_TESTS] = system.missing([system.BROWSER])
    lacking = list(dict.fromkeys(package for packages in wanted.values() for package in packages))
    failure = ""
    if lacking:
        gives = {p.name: p.gives for p in _packages()}
        rows = [
            [package, _gives(gives, package), ", ".join(who for who, packages in wanted.items() if package in packages)]
            for package in lacking
        ]
        table(["missing of the system", "what it is", "who needs it"], rows)
        failure = _apt(lacking)
    else:
        say("nothing is missing of the system")
    made = _environments(backends)
    if failure:
        say(failure)
    if not system.is_known():
        return DONE if made else INCOMPLETE
    return DONE if made and not failure else INCOMPLETE


def _packages() -> list[SystemPackage]:
    return [system.BROWSER, *(package for entry in registry.entries() for package in entry.system)]


def _gives(gives: dict[str, str], package: str) -> str:
    return gives.get(package) or gives[system.HEADERS.name]


def _apt(packages: Sequence[str]) -> str:
    """Install them with apt, as root; why not, where that cannot be done."""
    if not system.is_known():
        return f"this system has no apt-get: install what is called {', '.join(packages)} on Debian by its own means"
    root = [] if os.geteuid() == 0 else ["sudo"]
    commands = [
        [*root, "apt-get", "update", "--quiet"],
        [*root, "apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages],
    ]
    typed = " && ".join(map(shlex.join, commands))
    if root and shutil.which("sudo") is None:
        return f"that takes root, and there is no sudo here: as root, type `{typed.replace('sudo ', '')}`"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in commands:
        say(f"$ {shlex.join(command)}")
        status = subprocess.run(command, env=environment, check=False).returncode
        if status:
            return f"`{shlex.join(command)}` ended with exit code {status}; its own words are above"
    return ""


def _environments(backends: Sequence[str]) -> bool:
    """Make the environments that the backends run in; whether all could be made."""
    rows, well = [], True
    with progress() as say:
        for name in dict.fromkeys(registry.get(backend).environment for backend in backends):
            try:
                environments.sync(name, on_progress=say, hashes=True)
                rows.append([name, environments.get(name).state, _python(name)])
            except XBackendError as error:
                rows.append([name, "failed", str(error)])
                well = False
    table(["environment", "state", "Python, or why not"], rows)
    return well


def _python(name: str) -> str:
    """The Python of an environment, and the newer one that it could have."""
    recipe = recipes.recipe(name)
    return f"{recipe.python_version}; {recipe.shortfall}" if recipe.shortfall else recipe.python_version
