"""The environments on disk, and their states."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xbackend.environments import contents, installed, recipes, versions
from xbackend.environments.folders import directory
from xbackend.environments.installed import Installed
from xbackend.environments.installer import Progress, silent
from xbackend.environments.recipes import Recipe, framework_of
from xbackend.errors import EnvironmentFailed
from xbackend.files import shared, writers

MARKER = "xbackend-environment.json"  # written last: a directory without it was never complete
FORMAT = 1
_OTHER = "it was made for other requirements or another Python"


@dataclass(frozen=True)
class Environment:
    """An environment on disk.

    Attributes:
        name: 'numpy', 'tensorflow', 'pytensor', 'aesara', 'theano', or with a version: 'pytensor==2.38.3'.
        path: its directory, even if absent.
        state: 'ready'; 'absent'; 'stale' (made for other requirements or another Python, or only such a one exists);
            'broken' (present, but cannot be used).
        reason: why it is not ready, and what to type; empty if ready.
        modules: packages imported from elsewhere, name to folder: those of ``pytensor=PATH``.
        installed: the user's interpreter and its packages, if used in place of an environment.
    """

    name: str
    path: Path
    state: str
    reason: str
    modules: Mapping[str, str] = field(default_factory=dict, hash=False)
    installed: Installed | None = field(default=None, hash=False)

    @property
    def framework(self) -> str:
        """The name without a version or a path."""
        return framework_of(self.name)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return python_in(self.path) if self.installed is None else self.installed.interpreter

    def versions(self) -> dict[str, str]:
        """Installed packages and their versions, sorted by name.

        Raises:
            EnvironmentFailed: the environment is not ready.
        """
        if self.installed is not None:
            return dict(self.installed.packages)
        if self.state not in ("ready", "stale") or not self.path.is_dir():
            raise EnvironmentFailed(f"environment {self.name!r} has no packages to list: {self.reason}")
        return contents.packages_in(self.path)

    def damage(self, hashes: bool = False, say: Progress = silent) -> list[contents.Damage]:
        """The missing and changed packages and files.

        Looks at every installed file, in a fraction of a second; for ``hashes`` see `contents.damage`.
        """
        if self.state != "ready":
            return [contents.Damage(self.name, self.reason)]
        if self.installed is not None:
            return []
        marker = read_marker(self.path)
        present = self.versions()
        problems = [
            contents.Damage(name, f"{version} was installed, {present.get(name, 'nothing')} is there")
            for name, version in marker["packages"].items()
            if present.get(name) != version
        ]
        return [*problems, *contents.damage(self.path, hashes, marker.get("records", {}), say)]


def python_in(path: Path) -> Path:
    """The interpreter of the environment in `path`."""
    return path / "bin" / "python"


def inspect(recipe: Recipe) -> Environment:
    """The environment of a recipe in its present state, by a quick look."""
    if recipe.interpreter is not None:
        own = installed.look(recipe.interpreter, recipe.framework)
        state = "broken" if own.problem else "ready"
        return Environment(recipe.name, own.interpreter.parent, state, own.problem, installed=own)
    path = directory() / recipe.directory_name()
    problem = ""
    if path.is_dir():
        problem = _broken(path, python_in(path))
        state = "broken" if problem else "ready"
    elif any(True for _ in others(recipe)):
        state, problem = "stale", f"{_OTHER} than these"
    else:
        state, problem = "absent", "it was not made yet"
    reason = problem and f"{problem}; type `{recipe.command}`"
    modules = {} if recipe.folder is None else {recipe.framework: str(recipe.folder)}
    return Environment(recipe.name, path, state, reason, modules)


def others(recipe: Recipe) -> Iterator[Environment]:
    """The environments of a recipe's name that were made for other requirements or another Python."""
    current = recipe.directory_name()
    for path in _directories():
        if path.name != current and _stem(path) == recipe.stem:
            yield Environment(recipe.name, path, "stale", f"{_OTHER}; type `{recipe.command}`")


def everything() -> Iterator[Environment]:
    """The current environment of every recipe, and of every version on disk, each followed by its stale ones."""
    named = filter(None, (versions.of_stem(stem) for stem in dict.fromkeys(map(_stem, _directories()))))
    chosen = {recipes.recipe(name).name for name in recipes.RECIPES}
    for recipe in [*recipes.every(), *named]:
        current = inspect(recipe)
        if current.state == "absent" and recipe.accelerator and recipe.name not in chosen:
            continue  # another kind of accelerator than this machine has
        if current.state != "stale":
            yield current
        yield from others(recipe)


def read_marker(path: Path) -> dict[str, Any]:
    """The marker written when the environment was complete; empty if there is none, or a damaged one."""
    try:
        marker = json.loads((path / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    complete = isinstance(marker, dict) and marker.get("format") == FORMAT and isinstance(marker.get("packages"), dict)
    return marker if complete else {}


def _stem(path: Path) -> str:
    """The name of an environment's directory, without Python and digest."""
    return path.name.rsplit("-", 2)[0]


def _directories() -> list[Path]:
    try:
        return sorted(path for path in directory().iterdir() if path.is_dir() and not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise EnvironmentFailed(f"{directory()} cannot be read: {error}. Set XBACKEND_HOME to one that can.") from error


def _broken(path: Path, python: Path) -> str:
    if not read_marker(path):
        return f"{path / MARKER} is missing or damaged"
    if not os.access(python, os.X_OK):
        return f"{python} cannot be run (the Python that it was made from is gone?)"
    who = writers(path)
    return f"{path} is open to others: {who}" if who and not shared() else ""
