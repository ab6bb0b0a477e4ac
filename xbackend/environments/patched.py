"""A framework of the user's own on disk: ``pytensor=PATH``, in the place of the one in its locked environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xbackend.environments.recipes import Recipe, recipe
from xbackend.errors import EnvironmentFailed


@dataclass(frozen=True, kw_only=True)
class PatchedRecipe(Recipe):
    """The environment of the recipe ``base``, whose framework is imported from the package in ``folder``."""

    base: Recipe
    folder: Path

    @property
    def framework(self) -> str:
        return self.base.name

    @property
    def stem(self) -> str:
        return self.base.stem

    @property
    def source(self) -> Path:
        return self.base.source

    @property
    def lock(self) -> Path:
        return self.base.lock

    @property
    def command(self) -> str:
        return self.base.command

    @property
    def modules(self) -> Mapping[str, str]:
        return {self.framework: str(self.folder)}

    def check_removable(self) -> None:
        raise EnvironmentFailed(
            f"{self.name!r} has no environment of its own: it is that of {self.framework}, with the package in "
            f"{self.folder}; what is there is yours. xbackend env remove {self.framework} removes the environment"
        )


def find(name: str) -> Recipe:
    """The recipe of ``FRAMEWORK=PATH``: a checkout or an unpacked wheel or source distribution, that holds the package
    of the framework, itself or in ``src``; or that package.

    Raises:
        EnvironmentFailed: there is no such framework, or no such package.
    """
    framework, _, place = name.partition("=")
    base, path = recipe(framework.strip()), Path(place.strip()).expanduser().absolute()
    for folder in (path / base.name, path / "src" / base.name, path):
        if folder.name == base.name and (folder / "__init__.py").is_file():
            return PatchedRecipe(
                f"{base.name}={path}", base.newest_python, base.sources, base=base, folder=folder.resolve()
            )
    raise EnvironmentFailed(
        f"{name!r} names no environment: {path} holds no package {base.name} ({base.name}/__init__.py, or "
        f"src/{base.name}/__init__.py): give the folder of a checkout, or of an unpacked wheel or source distribution, "
        f"or {base.name}==VERSION"
    )
