"""A framework installed by the user: ``jax=/opt/jax`` is the interpreter in that folder, not a locked environment.

On a cluster with GPUs a module or a container often provides it. Nothing is made, verified or removed in it. Results
name the versions that differ from the lock.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from xbackend.environments import contents, interpreters, recipes
from xbackend.environments.recipes import recipe
from xbackend.errors import EnvironmentFailed

_TOLD = (
    "import importlib.metadata, importlib.util, json, sys\n"
    # Of several versions on the path the first one is imported.
    "found = reversed([*importlib.metadata.distributions()])\n"
    "there = {str(d.metadata['Name']): d.version for d in found}\n"
    "print(json.dumps([sys.version_info[:2], importlib.util.find_spec('%s') is not None, there]))\n"
)


@dataclass(frozen=True)
class Installed:
    """A user's interpreter with a framework and its dependencies.

    Attributes:
        interpreter: its path.
        packages: names and versions of the locked packages, those named after one of them (``jax-cuda13-plugin``) and
            NVIDIA's.
        unlocked: packages whose version differs from the lock, as in ``jax 0.11.2 (locked: 0.12.0)``.
        problem: why it cannot be used, and what to give; empty if it can.
    """

    interpreter: Path
    packages: Mapping[str, str]
    unlocked: tuple[str, ...] = ()
    problem: str = ""


@functools.cache
def look(interpreter: Path, framework: str) -> Installed:
    """The packages of an interpreter, asked once in a process: later installations are not seen."""
    give = f"give an interpreter that has {framework}, or leave {framework}=PATH out for the locked environment"
    try:
        version, found, there = interpreters.ask(interpreter, _TOLD % framework, site=True)
        facts = contents.facts(interpreter)
    except (EnvironmentFailed, OSError, subprocess.SubprocessError, ValueError) as error:
        return Installed(interpreter, {}, problem=f"{interpreter} cannot be asked what it has ({error}): {give}")
    if tuple(version) < interpreters.LOWEST:
        oldest = interpreters.Interpreter(interpreters.LOWEST)
        return Installed(interpreter, {}, problem=f"{interpreter} is older than Python {oldest}: {give}")
    if not found:
        return Installed(interpreter, {}, problem=f"{interpreter} has no package {framework}: {give}")
    base = recipe(framework)
    locked = recipes.locked(base.read(base.lock), facts)
    present: dict[str, str] = {canonicalize_name(name): version for name, version in there.items()}
    kin = ("nvidia-", *(f"{name}-" for name in locked))
    packages = {n: v for n, v in sorted(present.items()) if n in locked or n.startswith(kin)}
    other = [f"{n} {v} (locked: {locked[n]})" for n, v in packages.items() if v != locked.get(n, v)]
    return Installed(interpreter, packages, tuple(other))
