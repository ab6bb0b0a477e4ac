"""The releases of a framework in the package index, listed by pip, with pip's configuration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec

import uv
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from xbackend.environments import interpreters, recipes
from xbackend.environments.recipes import Recipe
from xbackend.errors import EnvironmentFailed

EXAMPLE = "'pytensor>=2.30,<3.4'"
_LIMIT = 120.0  # seconds


def releases(asked: str) -> list[str]:
    """The environments of a framework's releases, the oldest first, as in ``pytensor==2.38.3``.

    Only releases for a Python of this machine that ``asked`` (as in ``pytensor>=2.30,<3.4``) allows, without
    pre-releases. Raises `EnvironmentFailed` for an unknown framework, and if the index does not answer.
    """
    try:
        wanted = Requirement(asked)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise EnvironmentFailed(f"{asked!r} names no releases: {reason}; write {EXAMPLE}") from error
    recipe = recipes.recipe(canonicalize_name(wanted.name))
    if wanted.extras or wanted.marker or wanted.url:
        raise EnvironmentFailed(f"{asked!r} says more than a framework and its versions: write {EXAMPLE}")
    there = chosen(listed(recipe), wanted.specifier)
    return [f"{recipe.framework}=={version}" for version in there]


def chosen(there: set[str], specifier: SpecifierSet) -> list[str]:
    """The versions that a specifier allows, without pre-releases, the oldest first."""
    versions = set()
    for text in there:
        with suppress(InvalidVersion):  # older than the standard form of versions
            versions.add(Version(text))
    return [str(version) for version in sorted(versions) if version in specifier and not version.is_prerelease]


def listed(recipe: Recipe) -> set[str]:
    """The versions of a framework in the index for a Python of this machine."""
    if recipe.sources:
        return _pip(recipe.framework, "--ignore-requires-python")
    pythons = interpreters.choices(recipe.newest_python)
    return set().union(*(_pip(recipe.framework, "--python-version", str(p), "--only-binary=:all:") for p in pythons))


def _pip(package: str, *options: str) -> set[str]:
    """The versions listed by ``pip index versions``; empty if none fits the options. Raises `EnvironmentFailed`."""
    environment = dict(os.environ)
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):  # for a machine that is set up for uv alone
        if name in environment:
            environment.setdefault("PIP_INDEX_URL", environment[name])
    start = [sys.executable, "-P", "-m"]  # -P: no file called pip in the user's folder
    if find_spec("pip") is None:  # in an environment made by uv
        start = [uv.find_uv_bin(), "tool", "run", "--python", sys.executable]
    command = [*start, "pip", "index", "versions", package, *options]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFailed(f"the releases of {package} cannot be listed: {error}") from error
    found = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    if found is None and "No matching distribution" not in done.stderr:
        words = "\n".join(f"    {line}" for line in done.stderr.splitlines()[-5:])
        raise EnvironmentFailed(
            f"the releases of {package} cannot be listed: `pip index versions` ended with status {done.returncode}; it "
            f"said:\n{words}\nCheck the network (behind a mirror set PIP_INDEX_URL, behind a proxy HTTPS_PROXY)."
        )
    return set(found[1].split(", ")) if found else set()
