"""The packages of the operating system that backends need beside their environment: find and install missing ones."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from itertools import chain

from xbackend.backends import registry, system
from xbackend.environments import recipes


def missing(backend: str) -> tuple[str, ...]:
    """The missing packages of the system that a backend needs."""
    entry = registry.get(backend)
    python = recipes.recipe(entry.environment).python
    return system.missing(entry.system, str(python), python.include)


def gives(package: str) -> str:
    """The use of a package, in a few words."""
    of_tests = chain.from_iterable(system.TESTS.values())
    packages = [*of_tests, *(each for entry in registry.entries() for each in entry.system)]
    return {each.name: each.gives for each in packages}.get(package) or system.HEADERS.gives


def install(packages: Sequence[str], say: Callable[[str], None]) -> str:
    """Install packages with apt-get, as root. ``say`` gets each command. Returns why it failed; empty on success."""
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
