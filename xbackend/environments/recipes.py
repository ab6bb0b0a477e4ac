"""The recipes of environments: locked requirements, and a Python.

`requirements/<name>.in` has the requirements and their reasons; `requirements/<name>.txt` is the same resolved, with a
hash for every file, by `python -m xbackend.environments.lock`. `<name>+cuda13` are those of the environment with wheels
for GPUs (`accelerators.py`).
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from xbackend.backends import registry
from xbackend.environments import accelerators, interpreters
from xbackend.environments.interpreters import Interpreter, Version
from xbackend.errors import EnvironmentFailed

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"


@dataclass(frozen=True)
class Recipe:
    """How one environment is made.

    Attributes:
        name: that of its framework, and behind it a kind of accelerator, a version or a path, where one is chosen.
        newest_python: the newest (major, minor) for which every locked package has a wheel.
        sources: packages without a wheel, built here with locked tools.
        folder: the user's package of the framework, imported in place of the locked one.
        interpreter: the user's interpreter with the framework, used in place of an environment.
        accelerator: the kind in `accelerators.KINDS` that its wheels are for; empty for CPUs.
    """

    name: str
    newest_python: tuple[int, int]
    sources: tuple[str, ...] = ()
    folder: Path | None = None
    interpreter: Path | None = None
    accelerator: str = ""

    @property
    def framework(self) -> str:
        """The name of the framework, without a kind of accelerator, a version or a path."""
        return framework_of(self.name)

    @property
    def stem(self) -> str:
        """The start of the names of its directories, and the name of its two requirements files."""
        return f"{self.framework}+{self.accelerator}" if self.accelerator else self.framework

    @property
    def source(self) -> Path:
        """The requirements as written by hand."""
        return REQUIREMENTS / f"{self.stem}.in"

    @property
    def lock(self) -> Path:
        """The requirements as resolved, with hashes."""
        return REQUIREMENTS / f"{self.stem}.txt"

    @property
    def python(self) -> Interpreter:
        """The Python of the environment: this machine's newest that the lock covers, or that of `XBACKEND_PYTHON`. The
        Python that runs xbackend does not matter."""
        return interpreters.choices(self.newest_python)[0]

    @property
    def python_version(self) -> str:
        """The version of its Python, as in '3.13'."""
        return str(self.python)

    def locked_version(self, python: Version) -> str:
        """The version of the framework locked for a Python; empty if there is none."""
        number = str(Interpreter(python))
        facts = {"python_version": number, "python_full_version": f"{number}.0"}
        return locked(self.read(self.lock), facts).get(self.framework, "")

    @property
    def shortfall(self) -> str:
        """The newer version of the framework that a newer Python would bring, and what to do; empty without one."""
        ours, newest = self.python.version, self.locked_version(self.newest_python)
        if interpreters.asked() is not None or newest in ("", self.locked_version(ours)):
            return ""
        minors = range(ours[1], self.newest_python[1] + 1)
        first = next(minor for minor in minors if self.locked_version((ours[0], minor)) == newest)
        return f"{self.framework} {newest} needs Python {ours[0]}.{first} or later: install one, then {self.command}"

    @property
    def command(self) -> str:
        """What to type to make it."""
        asked = interpreters.asked()
        python = f" --python {Interpreter(asked)}" if asked is not None else ""
        return f"xbackend env sync {self.framework if self.folder or self.interpreter else self.name}{python}"

    @property
    def building(self) -> list[str]:
        """uv's options that allow wheels only, except for ``sources``."""
        return ["--only-binary", ":all:", *(option for name in self.sources for option in ("--no-binary", name))]

    def identity(self) -> list[str]:
        """The texts that determine its packages: the locked requirements."""
        return [self.read(self.lock)]

    def directory_name(self) -> str:
        """Name of the environment's directory, different for other requirements, another Python or platform."""
        identity = "\0".join([*self.identity(), self.python_version, sysconfig.get_platform()])
        return f"{self.stem}-{self.python_version}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"

    def prepare(self, say: Callable[[str], None]) -> Recipe:
        """Make ``lock`` if it is missing. Returns the recipe to go on with: itself, or one with another Python.

        The caller holds the lock of the environment's directory.
        """
        return self

    def forget(self) -> None:
        """Delete the files of ``prepare``."""

    def read(self, path: Path) -> str:
        """The text of one of the package's own files. Raises `EnvironmentFailed`."""
        try:
            return path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise EnvironmentFailed(
                f"the requirements of environment {self.name!r} cannot be read: {error}. "
                "The installation of xbackend is damaged: install it again."
            ) from error


RECIPES = {e.name: Recipe(e.name, e.newest_python, e.sources) for e in registry.ENVIRONMENTS.values()}


def every() -> list[Recipe]:
    """The recipes of all locks: one for CPUs for each framework, then those for accelerators."""
    accelerated = (
        replace(own, name=f"{own.name}+{kind}", accelerator=kind)
        for own, kind in product(RECIPES.values(), accelerators.KINDS)
    )
    return [*RECIPES.values(), *(recipe for recipe in accelerated if recipe.source.exists())]


def framework_of(name: str) -> str:
    """The framework of an environment's name: ``jax``, ``jax+cuda13``, ``jax==0.11.2``, ``jax=PATH``."""
    return re.split("[=+]", name, maxsplit=1)[0]


def recipe(name: str) -> Recipe:
    """The recipe of that name, ``jax`` or ``jax+cuda13``. A framework alone has the wheels of the chosen accelerator.

    Raises:
        EnvironmentFailed: there is none; the message lists those that are.
    """
    there = {recipe.name: recipe for recipe in every()}
    kind = accelerators.lock_for(name, REQUIREMENTS) if name in RECIPES else ""
    try:
        return there[f"{name}+{kind}" if kind else name]
    except KeyError:
        raise EnvironmentFailed(f"there is no environment {name!r}; there are {', '.join(there)}") from None


def locked(lock: str, facts: Mapping[str, str]) -> dict[str, str]:
    """The packages and versions locked for an interpreter. ``facts`` are its values for markers."""
    lines = [line.partition(" --hash")[0].rstrip(" \\") for line in lock.splitlines() if line[:1].isalnum()]
    return {
        canonicalize_name(asked.name): next(iter(asked.specifier)).version
        for asked in map(Requirement, lines)
        if asked.marker is None or asked.marker.evaluate(dict(facts))
    }
