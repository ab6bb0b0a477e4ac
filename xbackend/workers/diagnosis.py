"""Whether a backend works here, and what to type where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from xbackend import environments
from xbackend.backends import registry
from xbackend.environments import recipes, system_packages
from xbackend.errors import XBackendError
from xbackend.workers.opening import open as open_backend

# The state in a word, the versions or the reason, and what to type (empty if available).
Diagnosis = tuple[str, str, str]


def diagnose(name: str) -> Diagnosis:
    """Say whether a backend is 'available', 'missing' or 'broken'. An available one multiplies matrices in a worker."""
    entry = registry.get(name)
    environment = environments.get(entry.environment)
    recipe = recipes.recipe(entry.environment)
    lacking = system_packages.missing(name)
    absent = [f"packages of the system: {', '.join(lacking)}"] if lacking else []
    install = ["xbackend doctor --install"] if lacking else []
    if environment.state != "ready":
        absent.append(f"environment {environment.name} is {environment.state}: {environment.reason}")
        return "missing", "; ".join(absent), " && ".join([*install, recipe.command])
    matrix = np.array([[1, 1], [0, 1]], np.float32)
    try:
        with open_backend(name, isolated=True) as backend:
            versions = backend.describe().versions
            squared = backend.compile(lambda x: x @ x, matrix)(matrix)
    except XBackendError as error:
        if lacking:  # found missing by Debian's package names, so only a failure proves that they are needed
            return "missing", "; ".join([*absent, str(error).split("\n")[0]]), install[0]
        damage = environment.damage()
        reason = "; ".join([str(error).split("\n")[0], *map(str, damage[:1])])
        return "broken", reason, recipe.command if damage else "see why, then xbackend doctor again"
    if squared.tolist() != (matrix @ matrix).tolist():
        remedy = f"xbackend env remove {environment.name}; {recipe.command}"
        return "broken", f"a 2x2 product gave {squared.tolist()}", remedy
    listed = ", ".join(f"{package} {version}" for package, version in versions.items())
    newer = f"; {recipe.shortfall}" if recipe.shortfall else ""
    return "available", f"{listed}{newer}", ""


def verified(backends: Iterable[str], on_progress: Callable[[str], None]) -> dict[str, Diagnosis]:
    """The environments of the backends whose files have changed since installation, each as 'damaged'."""
    damaged = {}
    for name in dict.fromkeys(registry.get(backend).environment for backend in backends):
        on_progress(f"reading environment {name}")
        problems = environments.problems(name, on_progress) if environments.get(name).state == "ready" else []
        if problems:
            others = f" and {len(problems) - 1} more" if problems[1:] else ""
            why = f"environment {name} is damaged: {problems[0]}{others}"
            damaged[name] = ("damaged", why, recipes.recipe(name).command)
    return damaged
