"""The frameworks' own environments: locked, made once with uv, used by the workers.

They cannot share one interpreter (their NumPy versions exclude each other), so each has a virtual environment of its
own under `$XBACKEND_HOME/environments` (default: the user's data directory). An environment holds the framework's
requirements only; xbackend itself is not installed in it.

    from xbackend import environments
    environments.sync("numpy", on_progress=print).versions()

A name with a version, such as ``pytensor==2.38.3``, is that of an environment that differs from the locked one in the
version of the framework and in what that needs; ``pytensor=PATH`` is the locked one with the user's framework.
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
    """The locked environments that there can be."""
    return tuple(_recipes.RECIPES)


def get(name: str) -> Environment:
    """The environment of that name as it is now; look at its `state`. Nothing is made.

    Args:
        name: one of `names()`, or such a name with a version: ``pytensor==2.38.3``.

    Raises:
        EnvironmentFailed: there is no such name.
    """
    return _places.inspect(_versions.find(name))


def list() -> builtins.list[Environment]:
    """The current environment of every name, and of every version on disk, each followed by stale ones on disk."""
    return [*_places.everything()]
