"""Environments of a named version: ``pytensor==2.38.3`` is recipe ``pytensor`` with that version.

The requirement replaces the recipe's own lines about the framework. All other packages keep their locked versions if
the framework's version allows it, so two versions differ as little as possible. Requirements are resolved once, and
kept with hashes in `$XBACKEND_HOME/requirements`, for making the environment again from the same files. They hold for
one Python: the newest of this machine with a solution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from xbackend.environments import folders, interpreters, patched, recipes
from xbackend.environments.installer import Progress, Unresolvable, resolve
from xbackend.environments.interpreters import Interpreter
from xbackend.environments.recipes import Recipe
from xbackend.errors import EnvironmentFailed
from xbackend.files import make_own, write_whole

EXAMPLE = "pytensor==2.38.3"


@dataclass(frozen=True, kw_only=True)
class VersionRecipe(Recipe):
    """The recipe ``base`` with the framework's version in ``name`` (``pytensor==2.38.3``), and a Python."""

    base: Recipe
    chosen: Interpreter

    @property
    def python(self) -> Interpreter:
        return self.chosen

    @property
    def stem(self) -> str:
        return f"{self.base.stem}-{self.version}"

    @property
    def version(self) -> str:
        """The version of the framework."""
        return self.name.partition("==")[2]

    @property
    def source(self) -> Path:
        return folders.requirements() / f"{self.directory_name()}.in"

    @property
    def lock(self) -> Path:
        return folders.requirements() / f"{self.directory_name()}.txt"

    def text(self) -> str:
        """The recipe's requirements, with the version in those about the framework. Extras stay, as jax[cuda13]."""
        lines = self.base.read(self.base.source).splitlines()
        asked = {line: Requirement(text) for line in lines if (text := line.partition("#")[0].strip())}
        own = [line for line, one in asked.items() if canonicalize_name(one.name) == self.framework]
        extras = ",".join(sorted(set().union(*(asked[line].extras for line in own))))
        kept = [line for line in asked if line not in own]
        return "\n".join([*kept, f"{self.framework}{extras and f'[{extras}]'}=={self.version}", ""])

    def identity(self) -> list[str]:
        """The requirements, and the recipe's lock, the source of the other versions."""
        return [self.text(), *self.base.identity()]

    def prepare(self, say: Progress) -> Recipe:
        """Resolve the requirements, unless done before: for this Python, else for an older one, as a release of a
        framework covers the Pythons of its time."""
        older = [p for p in interpreters.choices(self.newest_python) if p.version < self.chosen.version]
        failures = []
        for recipe in [self, *(replace(self, chosen=python) for python in older)]:
            try:
                recipe._resolve(say)
                return recipe
            except Unresolvable as error:
                failures.append(error)
        raise failures[0]

    def _resolve(self, say: Progress) -> None:
        if self.lock.exists():
            return
        say(f"environment {self.name}: looking for the versions that go with it on Python {self.python_version}")
        make_own(self.lock.parent)
        write_whole(self.source, self.text().encode())
        options = [*self.building, "--python-version", self.python_version]
        options += ["--custom-compile-command", f"xbackend env sync {self.name}"]
        try:
            resolve(self.source, self.lock, options, f"environment {self.name}", say, like=self.base.lock)
        finally:
            if not self.lock.exists():
                self.source.unlink(missing_ok=True)

    def forget(self) -> None:
        """Delete this name's resolved requirements, those for older locks and other Pythons included."""
        for path in folders.requirements().glob("*"):
            if path.stem.rsplit("-", 2)[0] == self.stem:
                path.unlink(missing_ok=True)


def find(name: str) -> Recipe:
    """The recipe of a name, with or without a version or a path.

    Raises:
        EnvironmentFailed: there is none, or the text names no single version.
    """
    if "=" not in name and recipes.framework_of(name) in recipes.RECIPES:
        return recipes.recipe(name)
    if re.match(r"[^=<>!~]*=[^=]", name):
        return patched.find(name)
    try:
        asked = Requirement(name)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise EnvironmentFailed(
            f"{name!r} names no environment: {reason}; there are {', '.join(recipes.RECIPES)}, and versions of them "
            f"such as {EXAMPLE}, or your own: pytensor=PATH"
        ) from error
    base = recipes.recipe(canonicalize_name(asked.name))
    version = _version(asked)
    if not version:
        raise EnvironmentFailed(
            f"{name!r} does not name one version of {base.framework}, and nothing else: write "
            f"{base.framework}==VERSION, as in {EXAMPLE}"
        )
    return _version_of(base, version)


def of_stem(stem: str) -> Recipe | None:
    """The recipe of a directory's name without digest and Python; `None` if it names no version."""
    locked, _, version = stem.rpartition("-")
    base = next((recipe for recipe in recipes.every() if recipe.stem == locked), None)
    try:
        return None if base is None else _version_of(base, str(Version(version)))
    except InvalidVersion:
        return None


def _version_of(base: Recipe, version: str) -> VersionRecipe:
    """The recipe of a version, for the Python that it was resolved for, else for the newest."""
    named = [
        VersionRecipe(
            f"{base.framework}=={version}",
            base.newest_python,
            base.sources,
            accelerator=base.accelerator,
            base=base,
            chosen=python,
        )
        for python in interpreters.choices(base.newest_python)
    ]
    return next((recipe for recipe in named if recipe.lock.exists()), named[0])


def _version(asked: Requirement) -> str:
    """The single version of a requirement; empty if it has none, several, or further conditions."""
    specifiers = list(asked.specifier)
    if len(specifiers) != 1 or specifiers[0].operator != "==" or asked.extras or asked.marker or asked.url:
        return ""
    try:
        return str(Version(specifiers[0].version))
    except InvalidVersion:  # 2.38.*
        return ""
