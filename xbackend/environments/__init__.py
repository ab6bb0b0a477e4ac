"""The frameworks' environments: locked, made once with uv, used by the workers.

Frameworks cannot share one interpreter: their NumPy versions exclude each other. So each has its own virtual
environment under `$XBACKEND_HOME/environments` (default: the user's data directory). It holds the framework's
requirements only, without xbackend.

    from xbackend import environments
    environments.sync("numpy", on_progress=print).versions()

``pytensor==2.38.3`` names an environment with that version of the framework; other packages differ from the locked ones
only if it needs that. ``pytensor=PATH`` names the locked environment with the user's framework.
"""

from __future__ import annotations

import builtins

from xbackend.environments import places as _places
from xbackend.environments import recipes as _recipes
from xbackend.environments import versions as _versions
from xbackend.environments.folders import directory, home
from xbackend.environments.make import problems, remove, sync
from xbackend.environments.places import Environment

__all__ = ["Environment", "directory", "get", "home", "list", "names", "problems", "remove", "sync"]


def names() -> tuple[str, ...]:
    """The names of the locked environments."""
    return tuple(_recipes.RECIPES)


def get(name: str) -> Environment:
    """The environment of a name in its present `state`. Nothing is made.

    Args:
        name: one of `names()`, or such a name with a version: ``pytensor==2.38.3``.

    Raises:
        EnvironmentFailed: there is no such name.
    """
    return _places.inspect(_versions.find(name))


def list() -> builtins.list[Environment]:
    """The current environment of every name, and of every version on disk, each followed by its stale ones."""
    return [*_places.everything()]
