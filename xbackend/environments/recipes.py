"""What each environment is made of: its locked requirements and the Pythons that they were resolved for.

`requirements/<name>.in` says what is wanted and why; `requirements/<name>.txt` is the same resolved, with a hash for
every file, by `python -m xbackend.environments.lock`.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xbackend.errors import EnvironmentFailed

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
LOWEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Recipe:
    """How one environment is made.

    Attributes:
        name: name of the environment and of its two requirements files.
        newest_python: the newest (major, minor) for which every locked package has a wheel.
        sources: packages that have no wheel and are built here, with what the lock pins of the tools for that.
    """

    name: str
    newest_python: tuple[int, int]
    sources: tuple[str, ...] = ()

    @property
    def framework(self) -> str:
        """The name of the recipe, without a version."""
        return self.name

    @property
    def stem(self) -> str:
        """The start of the names of its directories."""
        return self.name

    @property
    def source(self) -> Path:
        """The requirements as written by hand."""
        return REQUIREMENTS / f"{self.name}.in"

    @property
    def lock(self) -> Path:
        """The requirements as resolved, with hashes."""
        return REQUIREMENTS / f"{self.name}.txt"

    @property
    def python_version(self) -> str:
        """The version that the environment is made with: the running one where the lock covers it."""
        version = min(max(sys.version_info[:2], LOWEST_PYTHON), self.newest_python)
        return f"{version[0]}.{version[1]}"

    @property
    def python_request(self) -> str:
        """What to ask uv for: the running interpreter itself where its version fits, else a version to find."""
        running = f"{sys.version_info[0]}.{sys.version_info[1]}"
        # In a virtual environment sys.executable belongs to that environment, which may be deleted before ours is.
        base = getattr(sys, "_base_executable", None)
        return base if base and self.python_version == running else self.python_version

    @property
    def building(self) -> list[str]:
        """uv's options that allow wheels only, except for ``sources``."""
        return ["--only-binary", ":all:", *(option for name in self.sources for option in ("--no-binary", name))]

    def digest(self) -> str:
        """12 hexadecimal digits that change with the locked requirements, the Python version and the platform."""
        identity = "\0".join([self.read(self.lock), self.python_version, sysconfig.get_platform()])
        return hashlib.sha256(identity.encode()).hexdigest()[:12]

    def directory_name(self) -> str:
        """Name of the environment's directory, different for every content."""
        return f"{self.stem}-{self.python_version}-{self.digest()}"

    def prepare(self, say: Callable[[str], None]) -> None:
        """See to it that ``lock`` is there; called while the lock of the environment's directory is held."""

    def forget(self) -> None:
        """Delete what ``prepare`` left."""

    def read(self, path: Path) -> str:
        """The text of one of the package's own files. Raises `EnvironmentFailed`."""
        try:
            return path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise EnvironmentFailed(
                f"the requirements of environment {self.name!r} cannot be read: {error}. "
                "The installation of xbackend is damaged: install it again."
            ) from error


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("numpy", newest_python=(3, 14)),
        Recipe("tensorflow", newest_python=(3, 13)),
        Recipe("pytensor", newest_python=(3, 13)),
        Recipe("aesara", newest_python=(3, 11)),
        Recipe("theano", newest_python=(3, 11), sources=("theano",)),
    )
}


def recipe(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        EnvironmentFailed: there is none; the message lists those that are.
    """
    try:
        return RECIPES[name]
    except KeyError:
        raise EnvironmentFailed(f"there is no environment {name!r}; there are {', '.join(RECIPES)}") from None
