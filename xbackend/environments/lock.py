"""Resolve the requirements of every environment again: `python -m xbackend.environments.lock [NAME ...]`.

Writes the newest versions that `requirements/<name>.in` allows, with a hash for every file, for all platforms and
Pythons from 3.11, to `requirements/<name>.txt`. No index address is written. For developers of xbackend: it writes into
the package.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from xbackend.environments.installer import resolve
from xbackend.environments.interpreters import LOWEST
from xbackend.environments.recipes import RECIPES, Recipe, every, recipe
from xbackend.errors import EnvironmentFailed

COMMAND = "python -m xbackend.environments.lock"


def lock(wanted: Recipe) -> None:
    """Write a new lock of one environment.

    Raises:
        EnvironmentFailed: the requirements exclude each other, or the index cannot be reached.
    """
    options = ["--universal", *wanted.building, "--python-version", f"{LOWEST[0]}.{LOWEST[1]}"]
    options += ["--custom-compile-command", COMMAND]
    # Rows on GPUs have the versions of rows on CPUs.
    like = RECIPES[wanted.framework].lock if wanted.accelerator else None
    resolve(wanted.source, wanted.lock, options, f"lock {wanted.name}", print, like=like)


def main(arguments: Sequence[str]) -> int:
    """Lock the named environments, or all."""
    try:
        for wanted in [*map(recipe, arguments)] or every():
            lock(wanted)
            print(f"{wanted.name}: locked in {wanted.lock}")
    except EnvironmentFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
