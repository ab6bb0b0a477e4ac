"""The releases of a framework that the package index has, asked for with pip, so that pip's configuration counts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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

    Those that a Python of this machine can run and that ``asked``, as in ``pytensor>=2.30,<3.4``, allows, without
    pre-releases. Raises `EnvironmentFailed` for what names no framework, and where the index does not answer.
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
    return [f"{recipe.name}=={version}" for version in there]


def chosen(there: set[str], specifier: SpecifierSet) -> list[str]:
    """The versions that a specifier allows, without pre-releases, the oldest first."""
    versions = []
    for text in there:
        try:
            versions.append(Version(text))
        except InvalidVersion:  # of a time before there was a form for them
            continue
    return [str(version) for version in sorted(set(versions)) if version in specifier and not version.is_prerelease]


def listed(recipe: Recipe) -> set[str]:
    """The versions of a framework that the index has for a Python of this machine."""
    if recipe.sources:
        return _pip(recipe.name, "--ignore-requires-python")
    pythons = interpreters.choices(recipe.newest_python)
    return set().union(*(_pip(recipe.name, "--python-version", str(p), "--only-binary=:all:") for p in pythons))


def _pip(package: str, *options: str) -> set[str]:
    """What ``pip index versions`` says; nothing where there is none for these options. Raises `EnvironmentFailed`."""
    environment = dict(os.environ)
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):  # of a machine that is set up for uv alone
        if name in environment:
            environment.setdefault("PIP_INDEX_URL", environment[name])
    start = [sys.executable, "-P", "-m"]  # not what is called pip in the folder of the user
    if find_spec("pip") is None:  # in an environment that uv has made
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
