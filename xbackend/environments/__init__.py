"""The frameworks' own environments: locked, made once with uv, used by the workers.

They cannot share one interpreter (their NumPy versions exclude each other), so each has a virtual environment of its
own under `$XBACKEND_HOME/environments` (default: the user's data directory). An environment holds the framework's
requirements only; xbackend itself is not installed in it.

    from xbackend import environments
    environments.sync("numpy", on_progress=print).versions()
"""

from __future__ import annotations

import builtins

from xbackend.environments import places as _places
from xbackend.environments import recipes as _recipes
from xbackend.environments.make import remove, sync
from xbackend.environments.places import Environment, directory, home

__all__ = ["Environment", "directory", "get", "home", "list", "names", "remove", "sync"]


def names() -> tuple[str, ...]:
    """The environments that there can be."""
    return tuple(_recipes.RECIPES)


def get(name: str) -> Environment:
    """The environment of that name as it is now; look at its `state`. Nothing is made.

    Raises:
        EnvironmentFailed: there is no such name.
    """
    return _places.inspect(_recipes.recipe(name))


def list() -> builtins.list[Environment]:
    """The current environment of every name, each followed by stale ones of that name that are still on disk."""
    return [*_places.everything()]
